"""Trains PPO (arXiv:1707.06347) on CartPole, or on another task with discrete or continuous actions.

    python examples/gym/train_ppo.py --env Pendulum-v1
    python examples/gym/train_ppo.py --env Pendulum-v1 --demo --load DIRECTORY

Expect: 500.0 [500.0, 500.0] on CartPole and -148.9 [-151.5, -146.6] on Pendulum, after 100,000 steps (5 seeds). These
are recorded scores [95 % interval] of `benchmarks/scores.py`, whose settings differ from those here.
Time: about one minute on one core.
"""

import common
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from pfrl_like import agents, experiments, policies
from pfrl_like import nn as pnn

parser = common.make_parser(__doc__)
parser.set_defaults(steps=100_000, eval_interval=10_000)
parser.add_argument("--env", default="CartPole-v1", help="an environment that observes vectors")
parser.add_argument("--gpu", type=int, default=None, help="CUDA device; the CPU without it")
parser.add_argument("--update-interval", type=int, default=1024, help="steps between updates")
parser.add_argument("--minibatch-size", type=int, default=64, help="steps of a minibatch")
parser.add_argument("--epochs", type=int, default=10, help="how often each step is learnt from")
parser.add_argument("--gamma", type=float, default=0.98, help="discount factor per step")
parser.add_argument("--lr", type=float, default=1e-3, help="Adam's learning rate, which falls to 0")
parser.add_argument("--render", action="store_true", help="show evaluations; needs pygame: the extra `classic`")
args = parser.parse_args()
env, eval_env = common.make_envs(args, Discrete | Box, args.render)
common.seed(args, env, eval_env)
obs_size = env.observation_space.shape[0]

if isinstance(env.action_space, Box):
    n_outputs = env.action_space.shape[0]
    head = policies.GaussianHeadWithStateIndependentCovariance(
        n_outputs, var_type="diagonal", var_func=lambda x: torch.exp(2 * x)
    )
else:
    n_outputs, head = env.action_space.n, policies.SoftmaxCategoricalHead()
model = pnn.Branched(
    nn.Sequential(
        *(nn.Linear(obs_size, 64), nn.Tanh()), *(nn.Linear(64, 64), nn.Tanh()), nn.Linear(64, n_outputs), head
    ),
    nn.Sequential(*(nn.Linear(obs_size, 64), nn.Tanh()), *(nn.Linear(64, 64), nn.Tanh()), nn.Linear(64, 1)),
)
agent = agents.PPO(
    model,
    torch.optim.Adam(model.parameters(), lr=args.lr, eps=1e-5),
    obs_normalizer=pnn.EmpiricalNormalization(obs_size, clip_threshold=5),
    gpu=args.gpu,
    gamma=args.gamma,
    lambd=0.95,
    entropy_coef=0.0,
    update_interval=args.update_interval,
    minibatch_size=args.minibatch_size,
    epochs=args.epochs,
    act_deterministically=True,
    max_grad_norm=0.5,
)


def set_learning_rate(env, agent, value):
    for group in agent.optimizer.param_groups:
        group["lr"] = value


decay = experiments.LinearInterpolationHook(args.steps, args.lr, 0.0, set_learning_rate)
common.run(args, agent, env, eval_env, step_hooks=[decay])
