"""Trains Categorical DQN (C51, arXiv:1707.06887), plain or double, on an Atari game.

    python examples/atari/train_categorical_dqn_ale.py --gpu 0
    python examples/atari/train_categorical_dqn_ale.py --demo --load DIRECTORY

Needs ale-py: the extra `atari`. The optimiser is that of the paper.
Time: days on a CPU; a GPU is meant.
"""

import common
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, explorers, q_functions, replay_buffers
from pfrl_like import nn as pnn

parser = common.make_parser(__doc__)
common.add_replay_arguments(parser)
common.add_watching_arguments(parser)
kinds = ["CategoricalDQN", "CategoricalDoubleDQN"]
parser.add_argument("--agent", default="CategoricalDQN", choices=kinds, help="kind of agent")
parser.add_argument("--n-atoms", type=int, default=51, help="atoms of a return distribution")
parser.add_argument("--v-min", type=float, default=-10.0, help="smallest return that can be told apart")
parser.add_argument("--v-max", type=float, default=10.0, help="largest one")
parser.add_argument("--noisy-net-sigma", type=float, help="explore by noisy layers of this scale")
parser.add_argument("--final-exploration-frames", type=int, default=10**6, help="steps until the last epsilon")
parser.add_argument("--final-epsilon", type=float, default=0.1, help="share of random actions at last")
parser.add_argument("--num-step-return", type=int, default=1, help="steps of the return that is learnt from")
parser.add_argument("--prioritized", action="store_true", help="draw transitions by their TD errors")
args = common.parse(parser)
outdir = common.start(args)
env, eval_env = common.make_env(args, args.seed, test=False), common.make_eval_env(args, outdir)
n_actions = env.action_space.n


def phi(frames):
    """Pixels from 0 to 1; the replay buffer keeps them as bytes."""
    return np.asarray(frames, dtype=np.float32) / 255


q_function = nn.Sequential(
    pnn.LargeAtariCNN(),
    q_functions.DistributionalFCStateQFunctionWithDiscreteAction(
        512, n_actions, args.n_atoms, args.v_min, args.v_max, n_hidden_channels=0, n_hidden_layers=0
    ),
)
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
    torch.optim.Adam(q_function.parameters(), lr=args.lr, eps=1e-2 / args.batch_size),
    replay_buffer,
    gamma=0.99,
    explorer=explorer,
    gpu=args.gpu,
    replay_start_size=args.replay_start_size,
    minibatch_size=args.batch_size,
    update_interval=args.update_interval,
    target_update_interval=args.target_update_interval,
    phi=phi,
    batch_accumulator="mean",
)
common.run(args, agent, outdir, env, eval_env)
