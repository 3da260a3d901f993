"""Categorical DQN (C51, arXiv:1707.06887), plain or double, on an Atari game; needs ale-py: the extra `atari`."""

import argparse

import common
import torch
from torch import nn

from pfrl_like import agents, explorers
from pfrl_like import nn as pnn
from pfrl_like.action_value import DistributionalDiscreteActionValue


def parse_args() -> argparse.Namespace:
    parser = common.make_parser(__doc__)
    common.add_exploration_flags(parser, final_epsilon=0.1)
    common.add_replay_flags(parser)
    common.add_watching_flags(parser)
    kinds = ["CategoricalDQN", "CategoricalDoubleDQN"]
    parser.add_argument("--agent", default="CategoricalDQN", choices=kinds, help="kind of agent")
    parser.add_argument("--n-atoms", type=int, default=51, help="atoms of a return distribution")
    parser.add_argument("--v-min", type=float, default=-10.0, help="smallest return that can be told apart")
    parser.add_argument("--v-max", type=float, default=10.0, help="largest one")
    parser.add_argument("--noisy-net-sigma", type=float, default=None, help="explore by noisy layers of this scale")
    return common.parse(parser)


class DistributionalHead(nn.Module):
    """Logits [B, n_actions * n_atoms] as the distributions of B states' returns."""

    def __init__(self, n_actions: int, n_atoms: int, v_min: float, v_max: float) -> None:
        super().__init__()
        self.shape = (n_actions, n_atoms)
        self.register_buffer("z_values", torch.linspace(v_min, v_max, n_atoms), persistent=False)

    def forward(self, x: torch.Tensor) -> DistributionalDiscreteActionValue:
        return DistributionalDiscreteActionValue(x.unflatten(1, self.shape).softmax(2), self.z_values)


def main() -> None:
    args = parse_args()
    outdir = common.begin(args)
    env, eval_env = common.make_env(args, args.seed, test=False), common.make_watched_env(args, outdir)
    n_actions = env.action_space.n

    q_function = nn.Sequential(
        pnn.LargeAtariCNN(),
        nn.Linear(512, n_actions * args.n_atoms),
        DistributionalHead(n_actions, args.n_atoms, args.v_min, args.v_max),
    )
    if args.noisy_net_sigma is not None:
        pnn.to_factorized_noisy(q_function, sigma_scale=args.noisy_net_sigma)
    agent = getattr(agents, args.agent)(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=args.lr, eps=1e-2 / args.batch_size),
        common.make_replay_buffer(args),
        explorer=common.make_explorer(args, n_actions) if args.noisy_net_sigma is None else explorers.Greedy(),
        batch_accumulator="mean",
        **common.agent_options(args),
    )
    common.run(args, agent, outdir, env, eval_env)


if __name__ == "__main__":
    main()
