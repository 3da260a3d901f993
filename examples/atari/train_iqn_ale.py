"""IQN (arXiv:1806.06923) or Double IQN on an Atari game, with the paper's settings; needs ale-py: the extra `atari`.

When training has ended, the agent of the best evaluation plays once more.
"""

import argparse

import common
import torch
from torch import nn

from pfrl_like import agents, q_functions, replay_buffers


def parse_args() -> argparse.Namespace:
    parser = common.make_parser(__doc__)
    common.add_exploration_flags(parser, final_epsilon=0.01)
    common.add_watching_flags(parser)
    parser.set_defaults(steps=5 * 10**7, lr=5e-5, eval_epsilon=0.001, eval_interval=250_000, n_best_episodes=200)
    parser.add_argument("--agent", default="IQN", choices=["IQN", "DoubleIQN"], help="kind of agent")
    parser.add_argument("--quantile-thresholds-N", type=int, default=64, help="fractions whose quantiles are learnt")
    parser.add_argument("--quantile-thresholds-N-prime", type=int, default=64, help="those of the next state")
    parser.add_argument("--quantile-thresholds-K", type=int, default=32, help="those that actions are chosen by")
    parser.add_argument("--act-deterministically", action="store_true", help="evaluate on evenly spaced fractions")
    parser.add_argument("--batch-accumulator", default="mean", choices=["mean", "sum"], help="of losses")
    return common.parse(parser, eval_n_steps=125_000)


def main() -> None:
    args = parse_args()
    outdir = common.begin(args)
    env, eval_env = common.make_env(args, args.seed, test=False), common.make_watched_env(args, outdir)
    n_actions = env.action_space.n

    q_function = q_functions.ImplicitQuantileQFunction(
        psi=nn.Sequential(
            *(nn.Conv2d(4, 32, 8, stride=4), nn.ReLU()),
            *(nn.Conv2d(32, 64, 4, stride=2), nn.ReLU()),
            *(nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten()),
        ),
        phi=nn.Sequential(q_functions.CosineBasisLinear(64, 3136), nn.ReLU()),
        f=nn.Sequential(nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, n_actions)),
    )
    agent = getattr(agents, args.agent)(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=args.lr, eps=1e-2 / args.batch_size),
        replay_buffers.ReplayBuffer(10**6),
        explorer=common.make_explorer(args, n_actions),
        quantile_thresholds_N=args.quantile_thresholds_N,
        quantile_thresholds_N_prime=args.quantile_thresholds_N_prime,
        quantile_thresholds_K=args.quantile_thresholds_K,
        act_deterministically=args.act_deterministically,
        batch_accumulator=args.batch_accumulator,
        **common.agent_options(args),
    )
    common.run(args, agent, outdir, env, eval_env)


if __name__ == "__main__":
    main()
