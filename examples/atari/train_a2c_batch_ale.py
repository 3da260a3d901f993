"""Trains A2C, which is A3C (arXiv:1602.01783) without asynchrony, on several copies of an Atari game.

    python examples/atari/train_a2c_batch_ale.py --num-envs 16 --gpu 0
    python examples/atari/train_a2c_batch_ale.py --demo --load DIRECTORY

Each copy is in a process. Needs ale-py: the extra `atari`.
Time: days on a CPU; a GPU is meant.
"""

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
    parser.set_defaults(steps=8 * 10**7, lr=7e-4, eval_interval=10**6)
    parser.add_argument("--gpu", type=int, help="CUDA device; the CPU without it")
    parser.add_argument("--num-envs", type=int, default=16, help="copies of the game")
    parser.add_argument("--update-steps", type=int, default=5, help="steps of each copy between updates")
    parser.add_argument("--gamma", type=float, default=0.99, help="discount factor per step")
    parser.add_argument("--use-gae", action="store_true", help="generalised advantage estimates")
    parser.add_argument("--tau", type=float, default=0.95, help="lambda of these")
    parser.add_argument("--entropy-coeff", type=float, default=0.01, help="weight of the entropy")
    parser.add_argument("--alpha", type=float, default=0.99, help="decay of RMSprop's running means")
    parser.add_argument("--rmsprop-epsilon", type=float, default=1e-5, help="added to its variances")
    parser.add_argument("--max-grad-norm", type=float, default=0.5, help="largest norm of a gradient")
    args = common.parse(parser)
    outdir = common.start(args)
    env, eval_env = common.make_batch_env(args, test=False), common.make_eval_env(args, outdir)

    features = pnn.LargeAtariCNN()
    policy_output = init_chainer_default(nn.Linear(512, env.action_space.n))
    value_function = init_chainer_default(nn.Linear(512, 1))
    policy = nn.Sequential(policy_output, policies.SoftmaxCategoricalHead())
    model = nn.Sequential(features, pnn.Branched(policy, value_function))
    agent = agents.A2C(
        model,
        optimizers.RMSpropEpsInsideSqrt(model.parameters(), lr=args.lr, alpha=args.alpha, eps=args.rmsprop_epsilon),
        gamma=args.gamma,
        num_processes=args.num_envs,
        gpu=args.gpu,
        update_steps=args.update_steps,
        phi=phi,
        entropy_coeff=args.entropy_coeff,
        use_gae=args.use_gae,
        tau=args.tau,
        max_grad_norm=args.max_grad_norm,
    )
    decay = experiments.LinearInterpolationHook(args.steps, args.lr, 0.0, set_learning_rate)
    train = experiments.train_agent_batch_with_evaluation
    common.run(args, agent, outdir, env, eval_env, train, step_hooks=[decay])
    env.close()


if __name__ == "__main__":  # processes import this file
    main()
