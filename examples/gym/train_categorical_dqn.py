"""Categorical DQN (C51, arXiv:1707.06887), plain or double, on an environment with discrete actions."""

import argparse

import common
import gymnasium
import torch

from pfrl_like import agents, explorers, q_functions, replay_buffers


def parse_args() -> argparse.Namespace:
    parser = common.make_parser(__doc__)
    common.add_discrete_flags(parser, ["CategoricalDQN", "CategoricalDoubleDQN"])
    parser.add_argument("--n-atoms", type=int, default=51, help="atoms of a return distribution")
    parser.add_argument("--v-min", type=float, default=0.0, help="smallest return that can be told apart")
    parser.add_argument("--v-max", type=float, default=100.0, help="largest; about the largest reward / (1 - gamma)")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    env, eval_env = common.make_envs(args, gymnasium.spaces.Discrete)
    common.seed(args, env, eval_env)

    q_function = q_functions.DistributionalFCStateQFunctionWithDiscreteAction(
        env.observation_space.shape[0],
        env.action_space.n,
        args.n_atoms,
        args.v_min,
        args.v_max,
        n_hidden_channels=128,
        n_hidden_layers=2,
    )
    agent = getattr(agents, args.agent)(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=1e-3),
        replay_buffers.ReplayBuffer(100_000),
        gamma=args.gamma,
        explorer=explorers.LinearDecayEpsilonGreedy(1.0, 0.04, args.final_exploration_steps, env.action_space.sample),
        gpu=args.gpu,
        replay_start_size=args.replay_start_size,
        minibatch_size=args.minibatch_size,
        update_interval=args.update_interval,
        target_update_interval=args.target_update_interval,
    )
    common.run(args, agent, env, eval_env)


if __name__ == "__main__":
    main()
