"""DQN, Double DQN or PAL on an Atari game; needs ale-py: the extra `atari`.

For example: `python examples/atari/train_dqn_ale.py --env PongNoFrameskip-v4 --gpu 0`, then with `--demo --load` the
directory of the agent that it saved.
"""

import argparse

import common
import torch
from torch import nn

from pfrl_like import agents, explorers, optimizers, q_functions
from pfrl_like import nn as pnn
from pfrl_like.initializers import init_chainer_default


def parse_args() -> argparse.Namespace:
    parser = common.make_parser(__doc__)
    common.add_exploration_flags(parser, final_epsilon=0.1)
    common.add_replay_flags(parser)
    common.add_watching_flags(parser)
    parser.add_argument("--agent", default="DQN", choices=["DQN", "DoubleDQN", "PAL"], help="kind of agent")
    parser.add_argument(
        "--arch", default="doubledqn", choices=["nature", "nips", "dueling", "doubledqn"], help="network"
    )
    parser.add_argument("--no-clip-delta", dest="clip_delta", action="store_false", help="square large TD errors, too")
    parser.add_argument("--noisy-net-sigma", type=float, default=None, help="explore by noisy layers of this scale")
    return common.parse(parser)


class SingleSharedBias(nn.Module):
    """One bias for all actions, as in the network of Double DQN (arXiv:1509.06461, appendix)."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.bias


def make_q_function(arch: str, n_actions: int) -> nn.Module:
    head = q_functions.DiscreteActionValueHead()
    if arch == "dueling":
        return q_functions.DuelingDQN(n_actions)
    if arch == "nips":
        return nn.Sequential(pnn.SmallAtariCNN(), init_chainer_default(nn.Linear(256, n_actions)), head)
    if arch == "nature":
        return nn.Sequential(pnn.LargeAtariCNN(), init_chainer_default(nn.Linear(512, n_actions)), head)
    output = init_chainer_default(nn.Linear(512, n_actions, bias=False))
    return nn.Sequential(pnn.LargeAtariCNN(), output, SingleSharedBias(), head)


def main() -> None:
    args = parse_args()
    outdir = common.begin(args)
    env, eval_env = common.make_env(args, args.seed, test=False), common.make_watched_env(args, outdir)
    n_actions = env.action_space.n

    q_function = make_q_function(args.arch, n_actions)
    if args.noisy_net_sigma is not None:
        pnn.to_factorized_noisy(q_function, sigma_scale=args.noisy_net_sigma)
    agent = getattr(agents, args.agent)(
        q_function,
        optimizers.RMSpropEpsInsideSqrt(q_function.parameters(), lr=args.lr, alpha=0.95, eps=1e-2, centered=True),
        common.make_replay_buffer(args),
        explorer=common.make_explorer(args, n_actions) if args.noisy_net_sigma is None else explorers.Greedy(),
        clip_delta=args.clip_delta,
        batch_accumulator="sum",
        **common.agent_options(args),
    )
    common.run(args, agent, outdir, env, eval_env)


if __name__ == "__main__":
    main()
