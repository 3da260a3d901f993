"""Trains Rainbow (arXiv:1710.02298) on an Atari game, with the paper's settings.

    python examples/atari/train_rainbow_ale.py --gpu 0
    python examples/atari/train_rainbow_ale.py --demo --load DIRECTORY

Rainbow is Categorical Double DQN with a dueling network, noisy layers, prioritised replay and returns over three steps.
When training has ended, the agent of the best evaluation plays once more. Needs ale-py: the extra `atari`.
Time: days on a CPU; a GPU is meant.
"""

import common
import numpy as np
import torch

from pfrl_like import agents, explorers, q_functions, replay_buffers
from pfrl_like import nn as pnn

parser = common.make_parser(__doc__)
common.add_replay_arguments(parser)
common.add_watching_arguments(parser)
parser.set_defaults(steps=5 * 10**7, lr=6.25e-5, replay_start_size=20_000, target_update_interval=32_000)
parser.set_defaults(eval_epsilon=0.0, eval_interval=250_000, n_best_episodes=200)
parser.add_argument("--n-atoms", type=int, default=51, help="atoms of a return distribution")
parser.add_argument("--v-max", type=float, default=10.0, help="largest return that can be told apart, either sign")
parser.add_argument("--noisy-net-sigma", type=float, default=0.5, help="scale of the noise that explores")
parser.add_argument("--num-step-return", type=int, default=3, help="steps of the return that is learnt from")
parser.add_argument("--alpha", type=float, default=0.5, help="exponent of the priorities")
parser.add_argument("--beta0", type=float, default=0.4, help="exponent of the weights at first; 1 at last")
args = common.parse(parser, eval_n_steps=125_000)
outdir = common.start(args)
env, eval_env = common.make_env(args, args.seed, test=False), common.make_eval_env(args, outdir)


def phi(frames):
    """Pixels from 0 to 1; the replay buffer keeps them as bytes."""
    return np.asarray(frames, dtype=np.float32) / 255


q_function = q_functions.DistributionalDuelingDQN(env.action_space.n, args.n_atoms, -args.v_max, args.v_max)
pnn.to_factorized_noisy(q_function, sigma_scale=args.noisy_net_sigma)
replay_buffer = replay_buffers.PrioritizedReplayBuffer(
    10**6,
    alpha=args.alpha,
    beta0=args.beta0,
    betasteps=max(1, args.steps // args.update_interval),  # updates, the last of which corrects the draws in full
    num_steps=args.num_step_return,
    normalize_by_max="memory",
)
agent = agents.CategoricalDoubleDQN(
    q_function,
    torch.optim.Adam(q_function.parameters(), lr=args.lr, eps=1.5e-4),
    replay_buffer,
    gamma=0.99,
    explorer=explorers.Greedy(),  # the noise of the layers explores
    gpu=args.gpu,
    replay_start_size=args.replay_start_size,
    minibatch_size=args.batch_size,
    update_interval=args.update_interval,
    target_update_interval=args.target_update_interval,
    phi=phi,
    batch_accumulator="mean",
)
common.run(args, agent, outdir, env, eval_env)
