"""QR-DQN, IQN, Double IQN, FQF or Rainbow on an environment with discrete actions and vector observations.

For example: `python examples/gym/train_distributional.py --agent IQN`, then with `--demo --load` the directory of the
agent that it saved. Settings are those with which `benchmarks/scores.py` learns CartPole; for C51 see
`train_categorical_dqn.py`.
"""

import argparse
from typing import Any

import common
import gymnasium
import torch
from torch import nn

from pfrl_like import agents, explorers, q_functions, replay_buffers
from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.nn import to_factorized_noisy
from pfrl_like.q_functions.dueling_dqn import dueling


def parse_args() -> argparse.Namespace:
    parser = common.make_parser(__doc__)
    common.add_discrete_flags(parser, ["IQN", "DoubleIQN", "QRDQN", "FQF", "Rainbow"])
    parser.set_defaults(update_interval=256, target_update_interval=256)
    parser.add_argument("--n-times-update", type=int, default=128, help="updates at each updating step")
    parser.add_argument("--n-hidden-channels", type=int, default=256, help="width of the two hidden layers")
    parser.add_argument("--lr", type=float, default=2.3e-3, help="Adam's learning rate at first; 0 at last")
    parser.add_argument("--num-step-return", type=int, default=3, help="steps of the return that is learnt from")
    parser.add_argument("--n-quantiles", type=int, default=51, help="quantiles of QR-DQN, or atoms of Rainbow")
    parser.add_argument("--n-fractions", type=int, default=8, help="fractions that IQN draws and FQF proposes")
    parser.add_argument("--v-max", type=float, default=100.0, help="Rainbow's largest return; the smallest one is 0")
    parser.add_argument("--noisy-net-sigma", type=float, default=0.5, help="scale of Rainbow's noise, which explores")
    return parser.parse_args()


class DuelingAtoms(nn.Module):
    """Rainbow's last layer: the distributions of returns, out of advantages and a value of every atom."""

    def __init__(self, n_features: int, n_actions: int, n_atoms: int, v_max: float) -> None:
        super().__init__()
        self.value = nn.Linear(n_features, n_atoms)
        self.advantage = nn.Sequential(
            nn.Linear(n_features, n_actions * n_atoms), nn.Unflatten(1, (n_actions, n_atoms))
        )
        self.register_buffer("z_values", torch.linspace(0.0, v_max, n_atoms))

    def forward(self, features: torch.Tensor) -> DistributionalDiscreteActionValue:
        logits = dueling(self.value(features).unsqueeze(1), self.advantage(features))
        return DistributionalDiscreteActionValue(logits.softmax(2), self.z_values)


def make_q_function(args: argparse.Namespace, n_inputs: int, n_actions: int) -> nn.Module:
    """Two hidden layers, and what tells the distributions of returns from them."""
    hidden = args.n_hidden_channels
    features = nn.Sequential(nn.Linear(n_inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
    if args.agent == "QRDQN":
        return q_functions.QuantileFCStateQFunctionWithDiscreteAction(n_inputs, n_actions, args.n_quantiles, hidden, 2)
    if args.agent == "Rainbow":
        atoms = DuelingAtoms(hidden, n_actions, args.n_quantiles, args.v_max)
        to_factorized_noisy(atoms, sigma_scale=args.noisy_net_sigma)
        return nn.Sequential(features, atoms)
    fractions = nn.Sequential(q_functions.CosineBasisLinear(64, hidden), nn.ReLU())
    if args.agent == "FQF":
        proposal = nn.Linear(hidden, args.n_fractions)
        return q_functions.FullyParametrizedQFunction(
            features, fractions, nn.Linear(hidden, n_actions), proposal, entropy_coeff=1e-3
        )
    return q_functions.ImplicitQuantileQFunction(features, fractions, nn.Linear(hidden, n_actions))


def main() -> None:
    args = parse_args()
    env, eval_env = common.make_envs(args, gymnasium.spaces.Discrete)
    common.seed(args, env, eval_env)

    q_function = make_q_function(args, env.observation_space.shape[0], int(env.action_space.n))
    groups: Any = q_function.parameters()
    if args.agent == "FQF":  # whose fractions learn more slowly
        groups = q_functions.fqf_parameter_groups(q_function, lr_factor=1e-3)
    explorer: Any = explorers.LinearDecayEpsilonGreedy(1.0, 0.04, args.final_exploration_steps, env.action_space.sample)
    replay_buffer = replay_buffers.ReplayBuffer(50_000, num_steps=args.num_step_return)
    options: dict[str, Any] = {}
    if args.agent == "Rainbow":
        explorer = explorers.Greedy()
        updates = max(1, args.steps // args.update_interval * args.n_times_update)  # the last corrects draws in full
        replay_buffer = replay_buffers.PrioritizedReplayBuffer(
            50_000, 0.5, 0.4, updates, normalize_by_max="memory", num_steps=args.num_step_return
        )
    if args.agent in ("IQN", "DoubleIQN"):
        drawn = {"quantile_thresholds_N": args.n_fractions, "quantile_thresholds_N_prime": args.n_fractions}
        options = {**drawn, "act_deterministically": True}
    agent = getattr(agents, "CategoricalDoubleDQN" if args.agent == "Rainbow" else args.agent)(
        q_function,
        torch.optim.Adam(groups, lr=args.lr),
        replay_buffer,
        gamma=args.gamma,
        explorer=explorer,
        gpu=args.gpu,
        replay_start_size=args.replay_start_size,
        minibatch_size=args.minibatch_size,
        update_interval=args.update_interval,
        n_times_update=args.n_times_update,
        target_update_interval=args.target_update_interval,
        max_grad_norm=10.0,
        **options,
    )
    common.run(args, agent, env, eval_env, lr=args.lr)


if __name__ == "__main__":
    main()
