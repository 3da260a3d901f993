"""A2C, which is A3C (arXiv:1602.01783) without asynchrony, on several copies of an Atari game, each in a process.

Needs ale-py: the extra `atari`. For example: `python examples/atari/train_a2c_batch_ale.py --num-envs 16`, then with
`--demo --load` the directory of the agent that it saved.
"""

import argparse
from functools import partial

import common
from torch import nn

from pfrl_like import agents, experiments, optimizers, policies
from pfrl_like import nn as pnn
from pfrl_like.initializers import init_chainer_default


def parse_args() -> argparse.Namespace:
    parser = common.make_short_parser(__doc__)
    common.add_gpu_flag(parser)
    common.add_watching_flags(parser)
    parser.set_defaults(steps=8 * 10**7, lr=7e-4, eval_interval=10**6)
    parser.add_argument("--num-envs", type=int, default=16, help="copies of the game")
    parser.add_argument("--update-steps", type=int, default=5, help="steps of each copy between updates")
    parser.add_argument("--gamma", type=float, default=0.99, help="discount factor per step")
    parser.add_argument("--use-gae", action="store_true", help="generalised advantage estimates")
    parser.add_argument("--tau", type=float, default=0.95, help="lambda of these")
    parser.add_argument("--entropy-coeff", type=float, default=0.01, help="weight of the entropy")
    parser.add_argument("--alpha", type=float, default=0.99, help="decay of RMSprop's running means")
    parser.add_argument("--rmsprop-epsilon", type=float, default=1e-5, help="added to its variances")
    parser.add_argument("--max-grad-norm", type=float, default=0.5, help="largest norm of a gradient")
    return common.parse(parser)


def main() -> None:
    args = parse_args()
    outdir = common.begin(args)
    env, eval_env = common.make_batch_env(args, test=False), common.make_watched_env(args, outdir)

    model = nn.Sequential(
        pnn.LargeAtariCNN(),
        pnn.Branched(
            nn.Sequential(init_chainer_default(nn.Linear(512, env.action_space.n)), policies.SoftmaxCategoricalHead()),
            init_chainer_default(nn.Linear(512, 1)),
        ),
    )
    agent = agents.A2C(
        model,
        optimizers.RMSpropEpsInsideSqrt(model.parameters(), lr=args.lr, alpha=args.alpha, eps=args.rmsprop_epsilon),
        gamma=args.gamma,
        num_processes=args.num_envs,
        gpu=args.gpu,
        update_steps=args.update_steps,
        phi=common.phi,
        entropy_coeff=args.entropy_coeff,
        use_gae=args.use_gae,
        tau=args.tau,
        max_grad_norm=args.max_grad_norm,
    )
    decay = experiments.LinearInterpolationHook(args.steps, args.lr, 0.0, common.set_learning_rate)
    train = partial(experiments.train_agent_batch_with_evaluation, step_hooks=[decay])
    common.run(args, agent, outdir, env, eval_env, train)
    env.close()


if __name__ == "__main__":
    main()
