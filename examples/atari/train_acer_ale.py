"""ACER (arXiv:1611.01224) on an Atari game, in several processes, each with a replay buffer of its own.

Needs ale-py: the extra `atari`. For example: `python examples/atari/train_acer_ale.py --processes 16`, then with
`--demo --load` the directory of the agent that it saved.
"""

import argparse
from functools import partial

import common
from torch import nn

from pfrl_like import agents, optimizers, policies, q_functions, replay_buffers
from pfrl_like import nn as pnn
from pfrl_like.agents.acer import ACERDiscreteActionHead
from pfrl_like.initializers import init_chainer_default


def parse_args() -> argparse.Namespace:
    parser = common.make_short_parser(__doc__)
    common.add_async_flags(parser)
    common.add_watching_flags(parser)
    parser.set_defaults(steps=8 * 10**7, lr=7e-4)
    parser.add_argument("--replay-start-size", type=int, default=10_000, help="steps of a process before replay")
    parser.add_argument("--n-times-replay", type=int, default=4, help="updates from replay for each one without")
    parser.add_argument("--use-lstm", action="store_true", help="with a memory")
    return common.parse(parser)


def main() -> None:
    args = parse_args()
    outdir = common.begin(args)
    eval_env = common.make_watched_env(args, outdir)
    n_actions = eval_env.action_space.n

    n_features = 512 if args.use_lstm else 256
    head = ACERDiscreteActionHead(
        nn.Sequential(init_chainer_default(nn.Linear(n_features, n_actions)), policies.SoftmaxCategoricalHead()),
        nn.Sequential(init_chainer_default(nn.Linear(n_features, n_actions)), q_functions.DiscreteActionValueHead()),
    )
    if args.use_lstm:
        model: nn.Module = pnn.RecurrentSequential(pnn.SmallAtariCNN(), nn.LSTM(256, 512), head)
    else:
        model = nn.Sequential(pnn.SmallAtariCNN(), head)
    agent = agents.ACER(
        model,
        optimizers.SharedRMSpropEpsInsideSqrt(model.parameters(), lr=args.lr, alpha=0.99, eps=4e-3),
        t_max=args.t_max,
        gamma=0.99,
        replay_buffer=replay_buffers.EpisodicReplayBuffer(10**6 // args.processes),
        beta=args.beta,
        phi=common.phi,
        n_times_replay=args.n_times_replay,
        replay_start_size=args.replay_start_size,
        max_grad_norm=40.0,
        recurrent=args.use_lstm,
    )
    common.run(args, agent, outdir, partial(common.make_game, args), eval_env, partial(common.train_async, args))


if __name__ == "__main__":
    main()
