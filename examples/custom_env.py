"""Your own environment: any object with `reset` and `step` will do, in gymnasium's form or in gym's old one.

    python examples/custom_env.py

A walker on a line of ten places starts in the middle; it is paid 1 at the right end and nothing at the left one.
DQN learns its values, which are printed beside the true ones.
Time: some seconds.
"""

import argparse
import tempfile

import numpy as np
import torch
from torch import nn

from pfrl_like import agents, experiments, explorers, q_functions, replay_buffers, utils

GAMMA, PLACES = 0.9, 10


class Line:
    """The old form with four values; nothing is inherited and no space is declared."""

    def reset(self) -> np.ndarray:
        """Start an episode; the observation is the place as a one-hot vector, float32 [10]."""
        self.place = PLACES // 2
        return np.eye(PLACES, dtype=np.float32)[self.place]

    def step(self, action: int) -> tuple[np.ndarray, float, bool, dict]:
        """Go left (0) or right (1)."""
        self.place += 1 if action == 1 else -1
        done = self.place in (0, PLACES - 1)
        return np.eye(PLACES, dtype=np.float32)[self.place], float(self.place == PLACES - 1), done, {}


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("--steps", type=int, default=5_000, help="environment steps of training")
parser.add_argument("--seed", type=int, default=0, help="of all random streams")
args = parser.parse_args()
torch.set_num_threads(1)  # networks this small are slower on several threads
utils.set_random_seed(args.seed)

q_function = nn.Sequential(nn.Linear(PLACES, 2), q_functions.DiscreteActionValueHead())  # one value per entry
agent = agents.DQN(
    q_function,
    torch.optim.Adam(q_function.parameters(), lr=1e-2),
    replay_buffers.ReplayBuffer(10_000),
    gamma=GAMMA,
    explorer=explorers.ConstantEpsilonGreedy(0.5, lambda: np.random.randint(2)),
    replay_start_size=50,
    target_update_interval=50,
)
with tempfile.TemporaryDirectory() as outdir:
    experiments.train_agent(agent, Line(), args.steps, outdir)

with torch.no_grad():
    learned = q_function(torch.eye(PLACES)).max
for place in range(1, PLACES - 1):
    true_value = GAMMA ** (PLACES - 2 - place)
    print(f"place {place}: learned value {learned[place]:.3f}, true value {true_value:.3f}")
