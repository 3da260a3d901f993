"""Trains Rainbow (arXiv:1710.02298) on a game of MinAtar (arXiv:1903.03176).

    python examples/minatar/train_rainbow.py --env Breakout
    python examples/minatar/train_rainbow.py --env Breakout --demo --load DIRECTORY

The games are small Atari games of 10x10 pixels. Needs minatar: the extra `minatar`.
Expect: `benchmarks/README.md` has a score on Breakout, after a tenth of these steps, with other settings.
Time: half a day or more on one core.
"""

import common
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, explorers, optimizers, replay_buffers
from pfrl_like import nn as pnn
from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.q_functions.dueling_dqn import dueling

parser = common.make_parser(__doc__)
parser.add_argument("--n-atoms", type=int, default=51, help="atoms of a return distribution")
parser.add_argument("--v-min", type=float, default=-10.0, help="smallest return that can be told apart")
parser.add_argument("--v-max", type=float, default=10.0, help="largest one")
parser.add_argument("--noisy-net-sigma", type=float, default=0.5, help="scale of the noise that explores")
args = parser.parse_args()
env, eval_env = common.make_envs(args)
n_actions, n_channels = env.action_space.n, env.observation_space.shape[2]


class DuelingAtoms(nn.Module):
    """The distributions of returns out of 128 features: logits of an action's advantage and of the state's value."""

    def __init__(self):
        super().__init__()
        self.advantage = nn.Linear(128, n_actions * args.n_atoms)
        self.value = nn.Linear(128, args.n_atoms)
        self.register_buffer("z_values", torch.linspace(args.v_min, args.v_max, args.n_atoms), persistent=False)

    def forward(self, features):
        advantage = self.advantage(features).unflatten(1, (n_actions, args.n_atoms))
        logits = dueling(self.value(features).unsqueeze(1), advantage)
        return DistributionalDiscreteActionValue(logits.softmax(2), self.z_values)


def phi(obs):
    """Channels first, as floats; the replay buffer keeps the game's own bools."""
    return np.moveaxis(obs, -1, -3).astype(np.float32, order="C")


q_function = nn.Sequential(
    *(nn.Conv2d(n_channels, 16, 3), nn.ReLU(), nn.Flatten()),
    *(nn.Linear(16 * 8 * 8, 128), nn.ReLU()),
    DuelingAtoms(),
)
pnn.to_factorized_noisy(q_function, sigma_scale=args.noisy_net_sigma)
replay_buffer = replay_buffers.PrioritizedReplayBuffer(
    100_000,
    alpha=0.5,
    beta0=0.4,
    betasteps=max(1, args.steps // args.update_interval),  # updates, the last of which corrects the draws in full
    num_steps=3,
)
agent = agents.CategoricalDoubleDQN(
    q_function,
    optimizers.RMSpropEpsInsideSqrt(q_function.parameters(), lr=args.lr, alpha=0.95, eps=1e-2, centered=True),
    replay_buffer,
    gamma=0.99,
    explorer=explorers.Greedy(),  # the noise of the layers explores
    gpu=args.gpu,
    replay_start_size=args.replay_start_size,
    minibatch_size=args.batch_size,
    update_interval=args.update_interval,
    target_update_interval=args.target_update_interval,
    phi=phi,
)
common.run(args, agent, env, eval_env)
