"""Trains DQN, Double DQN or PAL on an Atari game.

    python examples/atari/train_dqn_ale.py --env PongNoFrameskip-v4 --gpu 0
    python examples/atari/train_dqn_ale.py --demo --load DIRECTORY

Needs ale-py: the extra `atari`. The network is that of Double DQN's paper (arXiv:1509.06461); `--arch nature` is
that of DQN (doi:10.1038/nature14236), `nips` that of the first one (arXiv:1312.5602), `dueling` of arXiv:1511.06581.
Time: two to three days on one core, at 50 steps a second; a GPU is meant.
"""

import common
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, explorers, optimizers, q_functions, replay_buffers
from pfrl_like import nn as pnn
from pfrl_like.initializers import init_chainer_default

parser = common.make_parser(__doc__)
common.add_replay_arguments(parser)
common.add_watching_arguments(parser)
parser.add_argument("--agent", default="DQN", choices=["DQN", "DoubleDQN", "PAL"], help="kind of agent")
parser.add_argument("--arch", default="doubledqn", choices=["nature", "nips", "dueling", "doubledqn"], help="network")
parser.add_argument("--no-clip-delta", dest="clip_delta", action="store_false", help="square large TD errors, too")
parser.add_argument("--noisy-net-sigma", type=float, help="explore by noisy layers of this scale")
parser.add_argument("--final-exploration-frames", type=int, default=10**6, help="steps until the last epsilon")
parser.add_argument("--final-epsilon", type=float, default=0.1, help="share of random actions at last")
parser.add_argument("--num-step-return", type=int, default=1, help="steps of the return that is learnt from")
parser.add_argument("--prioritized", action="store_true", help="draw transitions by their TD errors")
args = common.parse(parser)
outdir = common.start(args)
env, eval_env = common.make_env(args, args.seed, test=False), common.make_eval_env(args, outdir)
n_actions = env.action_space.n


class SingleSharedBias(nn.Module):
    """One bias for all actions, as in the network of Double DQN (arXiv:1509.06461, appendix)."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.bias


def phi(frames):
    """Pixels from 0 to 1; the replay buffer keeps them as bytes."""
    return np.asarray(frames, dtype=np.float32) / 255


if args.arch == "dueling":
    q_function = q_functions.DuelingDQN(n_actions)
elif args.arch == "doubledqn":
    output = init_chainer_default(nn.Linear(512, n_actions, bias=False))
    q_function = nn.Sequential(pnn.LargeAtariCNN(), output, SingleSharedBias(), q_functions.DiscreteActionValueHead())
else:
    features = pnn.SmallAtariCNN() if args.arch == "nips" else pnn.LargeAtariCNN()
    output = nn.Linear(features.n_output_channels, n_actions)
    q_function = nn.Sequential(features, init_chainer_default(output), q_functions.DiscreteActionValueHead())

if args.noisy_net_sigma is None:
    explorer = explorers.LinearDecayEpsilonGreedy(
        1.0, args.final_epsilon, args.final_exploration_frames, lambda: np.random.randint(n_actions)
    )
else:
    pnn.to_factorized_noisy(q_function, sigma_scale=args.noisy_net_sigma)
    explorer = explorers.Greedy()

if args.prioritized:
    n_updates = max(1, args.steps // args.update_interval)  # the last of which corrects the draws in full
    replay_buffer = replay_buffers.PrioritizedReplayBuffer(10**6, 0.6, 0.4, n_updates, num_steps=args.num_step_return)
else:
    replay_buffer = replay_buffers.ReplayBuffer(10**6, num_steps=args.num_step_return)

agent = getattr(agents, args.agent)(
    q_function,
    optimizers.RMSpropEpsInsideSqrt(q_function.parameters(), lr=args.lr, alpha=0.95, eps=1e-2, centered=True),
    replay_buffer,
    gamma=0.99,
    explorer=explorer,
    gpu=args.gpu,
    replay_start_size=args.replay_start_size,
    minibatch_size=args.batch_size,
    update_interval=args.update_interval,
    target_update_interval=args.target_update_interval,
    clip_delta=args.clip_delta,
    phi=phi,
    batch_accumulator="sum",
)
common.run(args, agent, outdir, env, eval_env)
