"""Trains IQN (arXiv:1806.06923) or Double IQN on an Atari game, with the paper's settings.

    python examples/atari/train_iqn_ale.py --gpu 0
    python examples/atari/train_iqn_ale.py --demo --load DIRECTORY

When training has ended, the agent of the best evaluation plays once more. Needs ale-py: the extra `atari`.
Time: days on a CPU; a GPU is meant.
"""

import common
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, explorers, q_functions, replay_buffers

parser = common.make_parser(__doc__)
common.add_replay_arguments(parser)
common.add_watching_arguments(parser)
parser.set_defaults(steps=5 * 10**7, lr=5e-5, eval_epsilon=0.001, eval_interval=250_000, n_best_episodes=200)
parser.add_argument("--agent", default="IQN", choices=["IQN", "DoubleIQN"], help="kind of agent")
parser.add_argument("--quantile-thresholds-N", type=int, default=64, help="fractions whose quantiles are learnt")
parser.add_argument("--quantile-thresholds-N-prime", type=int, default=64, help="those of the next state")
parser.add_argument("--quantile-thresholds-K", type=int, default=32, help="those that actions are chosen by")
parser.add_argument("--act-deterministically", action="store_true", help="evaluate on evenly spaced fractions")
parser.add_argument("--batch-accumulator", default="mean", choices=["mean", "sum"], help="of losses")
parser.add_argument("--final-exploration-frames", type=int, default=10**6, help="steps until the last epsilon")
parser.add_argument("--final-epsilon", type=float, default=0.01, help="share of random actions at last")
args = common.parse(parser, eval_n_steps=125_000)
outdir = common.start(args)
env, eval_env = common.make_env(args, args.seed, test=False), common.make_eval_env(args, outdir)
n_actions = env.action_space.n


def phi(frames):
    """Pixels from 0 to 1; the replay buffer keeps them as bytes."""
    return np.asarray(frames, dtype=np.float32) / 255


q_function = q_functions.ImplicitQuantileQFunction(
    psi=nn.Sequential(
        *(nn.Conv2d(4, 32, 8, stride=4), nn.ReLU()),
        *(nn.Conv2d(32, 64, 4, stride=2), nn.ReLU()),
        *(nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten()),
    ),
    phi=nn.Sequential(q_functions.CosineBasisLinear(64, 3136), nn.ReLU()),
    f=nn.Sequential(nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, n_actions)),
)
agent = getattr(agents, args.agent)(
    q_function,
    torch.optim.Adam(q_function.parameters(), lr=args.lr, eps=1e-2 / args.batch_size),
    replay_buffers.ReplayBuffer(10**6),
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
    batch_accumulator=args.batch_accumulator,
    quantile_thresholds_N=args.quantile_thresholds_N,
    quantile_thresholds_N_prime=args.quantile_thresholds_N_prime,
    quantile_thresholds_K=args.quantile_thresholds_K,
    act_deterministically=args.act_deterministically,
)
common.run(args, agent, outdir, env, eval_env)
