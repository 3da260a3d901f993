"""Trains DQN with a memory (DRQN, arXiv:1507.06527) on an Atari game, whose frames may flicker.

    python examples/atari/train_drqn_ale.py --recurrent --flicker --no-frame-stack --gpu 0
    python examples/atari/train_drqn_ale.py --recurrent --flicker --no-frame-stack --demo --load DIRECTORY

The first trains on one frame at a time, half of them dark. Without `--recurrent` the same network without the LSTM is
trained, to compare. Needs ale-py: the extra `atari`.
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
parser.set_defaults(steps=5 * 10**7, lr=1e-4, target_update_interval=30_000, eval_epsilon=0.001, eval_interval=250_000)
parser.add_argument("--recurrent", action="store_true", help="with an LSTM")
parser.add_argument("--flicker", action="store_true", help="half of the frames are dark")
parser.add_argument("--no-frame-stack", dest="frame_stack", action="store_false", help="observe one frame only")
parser.add_argument("--episodic-update-len", type=int, default=10, help="steps of a training sequence")
parser.add_argument("--final-exploration-frames", type=int, default=10**6, help="steps until the last epsilon")
parser.add_argument("--final-epsilon", type=float, default=0.01, help="share of random actions at last")
args = common.parse(parser)
outdir = common.start(args)
wrapping = {"frame_stack": args.frame_stack, "flicker": args.flicker}
env = common.make_env(args, args.seed, test=False, **wrapping)
eval_env = common.make_eval_env(args, outdir, **wrapping)
n_actions = env.action_space.n


def phi(frames):
    """Pixels from 0 to 1; the replay buffer keeps them as bytes."""
    return np.asarray(frames, dtype=np.float32) / 255


convolutions = [
    *(nn.Conv2d(4 if args.frame_stack else 1, 32, 8, stride=4), nn.ReLU()),
    *(nn.Conv2d(32, 64, 4, stride=2), nn.ReLU()),
    *(nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten()),
]
head = [nn.Linear(512, n_actions), q_functions.DiscreteActionValueHead()]
if args.recurrent:
    q_function = pnn.RecurrentSequential(*convolutions, nn.LSTM(3136, 512), *head)
    replay_buffer = replay_buffers.EpisodicReplayBuffer(10**6)
else:
    q_function = nn.Sequential(*convolutions, nn.Linear(3136, 512), nn.ReLU(), *head)
    replay_buffer = replay_buffers.ReplayBuffer(10**6)

agent = agents.DoubleDQN(
    q_function,
    torch.optim.Adam(q_function.parameters(), lr=args.lr, eps=1e-4),
    replay_buffer,
    gamma=0.99,
    explorer=explorers.LinearDecayEpsilonGreedy(
        1.0, args.final_epsilon, args.final_exploration_frames, lambda: np.random.randint(n_actions)
    ),
    gpu=args.gpu,
    replay_start_size=args.replay_start_size,
    minibatch_size=args.batch_size,
    update_interval=args.update_interval,
    target_update_interval=args.target_update_interval,
    phi=phi,
    batch_accumulator="mean",
    episodic_update_len=args.episodic_update_len if args.recurrent else None,
    recurrent=args.recurrent,
)
common.run(args, agent, outdir, env, eval_env)
