"""DQN, Double DQN or PAL on several copies of an Atari game at once, each in a process of its own.

Only the newest frames come out of the processes; they are stacked here. Needs ale-py: the extra `atari`.
"""

import argparse

import common
from torch import nn

from pfrl_like import agents, experiments, optimizers, q_functions
from pfrl_like import nn as pnn
from pfrl_like.initializers import init_chainer_default


def parse_args() -> argparse.Namespace:
    parser = common.make_parser(__doc__)
    common.add_exploration_flags(parser, final_epsilon=0.1)
    common.add_replay_flags(parser)
    parser.add_argument("--num-envs", type=int, default=4, help="copies of the game")
    parser.add_argument("--agent", default="DQN", choices=["DQN", "DoubleDQN", "PAL"], help="kind of agent")
    parser.add_argument("--no-clip-delta", dest="clip_delta", action="store_false", help="square large TD errors, too")
    return common.parse(parser)


def main() -> None:
    args = parse_args()
    outdir = common.begin(args)
    env, eval_env = common.make_batch_env(args, test=False), common.make_batch_env(args, test=True)
    n_actions = env.action_space.n

    q_function = nn.Sequential(
        pnn.LargeAtariCNN(), init_chainer_default(nn.Linear(512, n_actions)), q_functions.DiscreteActionValueHead()
    )
    agent = getattr(agents, args.agent)(
        q_function,
        optimizers.RMSpropEpsInsideSqrt(q_function.parameters(), lr=args.lr, alpha=0.95, eps=1e-2, centered=True),
        common.make_replay_buffer(args),
        explorer=common.make_explorer(args, n_actions),
        clip_delta=args.clip_delta,
        batch_accumulator="sum",
        **common.agent_options(args),
    )
    common.run(args, agent, outdir, env, eval_env, experiments.train_agent_batch_with_evaluation)
    env.close()
    eval_env.close()


if __name__ == "__main__":
    main()
