"""Trains REINFORCE (Williams 1992, doi:10.1007/BF00992696) on CartPole, or with continuous actions.

    python examples/gym/train_reinforce.py --env CartPole-v1
    python examples/gym/train_reinforce.py --env CartPole-v1 --demo --load DIRECTORY

Rewards are scaled, so that the returns of training are, too; scores of evaluations are not.
Expect: REINFORCE 500.0 [500.0, 500.0] on CartPole after 300,000 steps (5 seeds). These are recorded scores [95 %
interval] of `benchmarks/scores.py`, whose settings differ from those here.
Time: about six minutes on one core.
"""

import common
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from pfrl_like import agents, policies, wrappers

parser = common.make_parser(__doc__)
parser.set_defaults(steps=300_000, eval_interval=20_000)
parser.add_argument("--env", default="CartPole-v1", help="an environment that observes vectors")
parser.add_argument("--gpu", type=int, default=None, help="CUDA device; the CPU without it")
parser.add_argument("--batchsize", type=int, default=10, help="episodes of an update")
parser.add_argument("--beta", type=float, default=1e-4, help="weight of the entropy")
parser.add_argument("--lr", type=float, default=1e-3, help="Adam's learning rate")
parser.add_argument("--reward-scale-factor", type=float, default=1e-2, help="rewards are multiplied by it")
parser.add_argument("--render", action="store_true", help="show evaluations; needs pygame: the extra `classic`")
args = parser.parse_args()
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
