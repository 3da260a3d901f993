"""DQN or Double DQN on an Atari game that several processes play, while this one learns.

Needs ale-py: the extra `atari`.
"""

import argparse
from functools import partial
from typing import Any

import common
from torch import nn

from pfrl_like import agents, experiments, optimizers, q_functions
from pfrl_like import nn as pnn
from pfrl_like.initializers import init_chainer_default


def parse_args() -> argparse.Namespace:
    parser = common.make_parser(__doc__)
    common.add_exploration_flags(parser, final_epsilon=0.1)
    common.add_replay_flags(parser)
    parser.add_argument("--num-envs", "--n-actors", type=int, default=4, help="processes, each with a game")
    parser.add_argument("--agent", default="DQN", choices=["DQN", "DoubleDQN"], help="kind of agent")
    parser.add_argument("--free", action="store_true", help="learn as fast as can be, not every so many steps")
    parser.add_argument("--n-updates", type=int, default=None, help="updates after which training ends, too")
    parser.add_argument("--actor-update-interval", type=int, default=8, help="updates until actors get new parameters")
    return common.parse(parser)


def make_env(args: argparse.Namespace, process_idx: int, test: bool) -> Any:
    return common.make_env(args, args.seed * args.num_envs + process_idx, test)


def main() -> None:
    args = parse_args()
    outdir = common.begin(args)
    eval_env = make_env(args, 0, test=True)
    n_actions = eval_env.action_space.n

    q_function = nn.Sequential(
        pnn.LargeAtariCNN(), init_chainer_default(nn.Linear(512, n_actions)), q_functions.DiscreteActionValueHead()
    )
    agent = getattr(agents, args.agent)(
        q_function,
        optimizers.RMSpropEpsInsideSqrt(q_function.parameters(), lr=args.lr, alpha=0.95, eps=1e-2, centered=True),
        common.make_replay_buffer(args),
        explorer=common.make_explorer(args, n_actions),
        batch_accumulator="sum",
        **common.agent_options(args),
    )

    def train(agent: Any, make_game: Any, eval_env: Any, **options: Any) -> None:  # an actor evaluates, in its own game
        experiments.train_agent_actor_learner(
            agent,
            make_game,
            n_actors=args.num_envs,
            n_updates=args.n_updates,
            actor_update_interval=args.actor_update_interval,
            updates_per_step=None if args.free else 1 / args.update_interval,
            random_seeds=[args.seed * args.num_envs + i for i in range(args.num_envs)],
            **options,
        )

    common.run(args, agent, outdir, partial(make_env, args), eval_env, train)
    print(f"{agent.optim_t} updates in {agent.t} steps")


if __name__ == "__main__":
    main()
