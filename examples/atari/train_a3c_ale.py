"""Trains A3C (arXiv:1602.01783) on an Atari game, in several processes without a lock.

    python examples/atari/train_a3c_ale.py --processes 16
    python examples/atari/train_a3c_ale.py --demo --load DIRECTORY

Needs ale-py: the extra `atari`.
Time: days on 16 cores.
"""

from functools import partial

import common
import numpy as np
from torch import nn

from pfrl_like import agents, experiments, optimizers, policies
from pfrl_like import nn as pnn
from pfrl_like.initializers import init_chainer_default


def phi(frames):
    """Pixels from 0 to 1."""
    return np.asarray(frames, dtype=np.float32) / 255


def set_learning_rate(env, agent, value):
    for group in agent.optimizer.param_groups:
        group["lr"] = value


def main():
    parser = common.make_parser(__doc__)
    common.add_watching_arguments(parser)
    parser.set_defaults(steps=8 * 10**7, lr=7e-4, eval_interval=250_000)
    parser.add_argument("--processes", type=int, default=16, help="that play and learn, of one thread each")
    parser.add_argument("--t-max", type=int, default=5, help="steps between updates")
    parser.add_argument("--beta", type=float, default=1e-2, help="weight of the entropy")
    parser.add_argument("--profile", action="store_true", help="write what each process spent its time on")
    args = common.parse(parser, eval_n_steps=125_000)
    outdir = common.start(args)
    eval_env = common.make_eval_env(args, outdir)

    features = pnn.SmallAtariCNN()
    policy_output = init_chainer_default(nn.Linear(256, eval_env.action_space.n))
    value_function = init_chainer_default(nn.Linear(256, 1))
    policy = nn.Sequential(policy_output, policies.SoftmaxCategoricalHead())
    model = nn.Sequential(features, pnn.Branched(policy, value_function))
    agent = agents.A3C(
        model,
        optimizers.SharedRMSpropEpsInsideSqrt(model.parameters(), lr=args.lr, alpha=0.99, eps=1e-1),
        t_max=args.t_max,
        gamma=0.99,
        beta=args.beta,
        phi=phi,
        max_grad_norm=40.0,
    )
    decay = experiments.LinearInterpolationHook(args.steps, args.lr, 0.0, set_learning_rate)
    common.run(
        args, agent, outdir, partial(common.make_env_of_process, args), eval_env, common.run_async,
        processes=args.processes,
        profile=args.profile,
        random_seeds=[args.seed * args.processes + i for i in range(args.processes)],
        global_step_hooks=[decay],
    )  # fmt: skip


if __name__ == "__main__":  # processes import this file
    main()
