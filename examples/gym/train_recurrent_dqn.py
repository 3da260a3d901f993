"""Recurrent DQN on a CartPole whose velocities are hidden: what cannot be seen has to be remembered."""

import argparse

import common
import gymnasium
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, explorers, q_functions, replay_buffers, wrappers
from pfrl_like.nn import RecurrentSequential


class HideVelocities(gymnasium.ObservationWrapper):
    """Leaves the cart's position and the pole's angle, scaled so that the change of one step is seen."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Positions without velocities, float32 [2]."""
        return np.array([5 * observation[0], 20 * observation[2]], dtype=np.float32)


def parse_args() -> argparse.Namespace:
    parser = common.make_parser(__doc__)
    parser.set_defaults(steps=100_000, eval_interval=10_000)
    parser.add_argument("--episodic-update-len", type=int, default=20, help="steps of a training sequence")
    parser.add_argument("--num-steps", type=int, default=3, help="of the returns within a sequence")
    parser.add_argument("--update-interval", type=int, default=256, help="steps between rounds of updates")
    parser.add_argument("--n-times-update", type=int, default=32, help="updates in a round")
    parser.add_argument("--target-update-interval", type=int, default=256, help="of the target network")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    env, eval_env = (HideVelocities(gymnasium.make("CartPole-v1")) for _ in range(2))
    common.seed(args, env, eval_env)

    q_function = RecurrentSequential(
        nn.GRU(2, 128),
        nn.Linear(128, env.action_space.n),
        q_functions.DiscreteActionValueHead(),
    )
    agent = agents.DQN(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=1e-3),
        replay_buffers.EpisodicReplayBuffer(50_000, by_length=True),
        gamma=0.99,
        explorer=explorers.LinearDecayEpsilonGreedy(1.0, 0.05, 8_000, env.action_space.sample),
        gpu=args.gpu,
        replay_start_size=args.replay_start_size,
        minibatch_size=args.minibatch_size,
        update_interval=args.update_interval,
        n_times_update=args.n_times_update,
        target_update_interval=args.target_update_interval,
        num_steps=args.num_steps,
        episodic_update_len=args.episodic_update_len,
        recurrent=True,
        max_grad_norm=10.0,
    )
    common.run(args, agent, wrappers.ScaleReward(env, 0.01), eval_env, lr=1e-3)  # so that a GRU can give such values


if __name__ == "__main__":
    main()
