"""A3C (arXiv:1602.01783) on an Atari game, in several processes without a lock; needs ale-py: the extra `atari`.

For example: `python examples/atari/train_a3c_ale.py --processes 16`, then with `--demo --load` the directory of the
agent that it saved.
"""

import argparse
from functools import partial

import common
from torch import nn

from pfrl_like import agents, optimizers, policies
from pfrl_like import nn as pnn
from pfrl_like.initializers import init_chainer_default


def parse_args() -> argparse.Namespace:
    parser = common.make_short_parser(__doc__)
    common.add_async_flags(parser)
    common.add_watching_flags(parser)
    parser.set_defaults(steps=8 * 10**7, lr=7e-4, eval_interval=250_000)
    return common.parse(parser, eval_n_steps=125_000)


def main() -> None:
    args = parse_args()
    outdir = common.begin(args)
    eval_env = common.make_watched_env(args, outdir)

    model = nn.Sequential(
        pnn.SmallAtariCNN(),
        pnn.Branched(
            nn.Sequential(
                init_chainer_default(nn.Linear(256, eval_env.action_space.n)), policies.SoftmaxCategoricalHead()
            ),
            init_chainer_default(nn.Linear(256, 1)),
        ),
    )
    agent = agents.A3C(
        model,
        optimizers.SharedRMSpropEpsInsideSqrt(model.parameters(), lr=args.lr, alpha=0.99, eps=1e-1),
        t_max=args.t_max,
        gamma=0.99,
        beta=args.beta,
        phi=common.phi,
        max_grad_norm=40.0,
    )
    common.run(args, agent, outdir, partial(common.make_game, args), eval_env, partial(common.train_async, args))


if __name__ == "__main__":
    main()
