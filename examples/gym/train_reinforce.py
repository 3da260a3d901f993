"""REINFORCE (Williams 1992, doi:10.1007/BF00992696) on CartPole, or on a task with continuous actions.

For example: `python examples/gym/train_reinforce.py --steps 300000`, then with `--demo --load` the directory of the
agent that it saved. With seed 0 evaluations at 25,000, 50,000, 75,000 and 100,000 steps gave 365, 500, 288 and 500.
"""

import argparse

import common
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from pfrl_like import agents, policies, wrappers


def parse_args() -> argparse.Namespace:
    parser = common.make_short_parser(__doc__)
    parser.set_defaults(steps=300_000, eval_interval=20_000)
    parser.add_argument("--env", default="CartPole-v1", help="an environment that observes vectors")
    parser.add_argument("--gpu", type=int, default=None, help="CUDA device; the CPU without it")
    parser.add_argument("--batchsize", type=int, default=10, help="episodes of an update")
    parser.add_argument("--beta", type=float, default=1e-4, help="weight of the entropy")
    parser.add_argument("--lr", type=float, default=1e-3, help="Adam's learning rate")
    parser.add_argument("--reward-scale-factor", type=float, default=1e-2, help="rewards are multiplied by it")
    parser.add_argument("--render", action="store_true", help="show evaluations; needs pygame: the extra `classic`")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    env, eval_env = common.make_envs(args, Discrete | Box, args.render)
    common.seed(args, env, eval_env)

    if isinstance(env.action_space, Box):
        n_outputs, head = env.action_space.shape[0], policies.GaussianHeadWithFixedCovariance(0.3)
    else:
        n_outputs, head = env.action_space.n, policies.SoftmaxCategoricalHead()
    policy = nn.Sequential(
        *(nn.Linear(env.observation_space.shape[0], 200), nn.LeakyReLU(0.2)),
        *(nn.Linear(200, 200), nn.LeakyReLU(0.2)),
        nn.Linear(200, n_outputs),
        head,
    )
    agent = agents.REINFORCE(
        policy,
        torch.optim.Adam(policy.parameters(), lr=args.lr),
        gpu=args.gpu,
        beta=args.beta,
        batchsize=args.batchsize,
        act_deterministically=True,
        backward_separately=True,
        max_grad_norm=1.0,
        learn_from_truncated=True,  # the best episodes of CartPole are all cut off
    )
    common.run(args, agent, wrappers.ScaleReward(env, args.reward_scale_factor), eval_env)


if __name__ == "__main__":
    main()
