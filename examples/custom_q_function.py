"""Your own Q-function: any torch module whose output is an action value. Here a dueling network of one class.

    python examples/custom_q_function.py

Double DQN learns CartPole with it, and its mean return is printed.
Time: about a minute on one core.
"""

import argparse
import tempfile

import gymnasium
import torch
from torch import Tensor, nn

from pfrl_like import agents, experiments, explorers, replay_buffers, utils
from pfrl_like.action_value import DiscreteActionValue


class Dueling(nn.Module):
    """Q(s, a) = V(s) + A(s, a) - mean_a A(s, a) (Wang et al. 2016, arXiv:1511.06581, eq. 9)."""

    def __init__(self, obs_size: int, n_actions: int, n_hidden: int = 128) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_size, n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_hidden), nn.ReLU())
        self.value = nn.Linear(n_hidden, 1)
        self.advantage = nn.Linear(n_hidden, n_actions)

    def forward(self, obs: Tensor) -> DiscreteActionValue:
        """Action values of observations [B, obs_size]."""
        hidden = self.body(obs)
        advantage = self.advantage(hidden)
        return DiscreteActionValue(self.value(hidden) + advantage - advantage.mean(dim=1, keepdim=True))


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("--env", default="CartPole-v1", help="a registered environment of gymnasium")
parser.add_argument("--steps", type=int, default=20_000, help="environment steps of training")
parser.add_argument("--seed", type=int, default=0, help="of all random streams")
args = parser.parse_args()
torch.set_num_threads(1)  # networks this small are slower on several threads
utils.set_random_seed(args.seed)

env = gymnasium.make(args.env)
env.reset(seed=args.seed)
env.action_space.seed(args.seed)
q_function = Dueling(env.observation_space.shape[0], env.action_space.n)
agent = agents.DoubleDQN(
    q_function,
    torch.optim.Adam(q_function.parameters(), lr=1e-3),
    replay_buffers.PrioritizedReplayBuffer(50_000, betasteps=args.steps, num_steps=3),
    gamma=0.99,
    explorer=explorers.LinearDecayEpsilonGreedy(1.0, 0.05, args.steps // 2 + 1, env.action_space.sample),
    replay_start_size=max(32, min(1_000, args.steps // 2)),  # at least a minibatch
    update_interval=2,
    target_update_interval=200,
)
with tempfile.TemporaryDirectory() as outdir:
    experiments.train_agent(agent, env, args.steps, outdir, progress=True)
scores = experiments.eval_performance(env, agent, n_steps=None, n_episodes=10)
print(f"mean return of 10 episodes after {args.steps} steps: {scores['mean']:.1f}")
