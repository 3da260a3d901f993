"""Trains IQN (arXiv:1806.06923) on a game of MinAtar (arXiv:1903.03176).

    python examples/minatar/train_iqn.py --env Breakout
    python examples/minatar/train_iqn.py --env Breakout --demo --load DIRECTORY

The games are small Atari games of 10x10 pixels. Needs minatar: the extra `minatar`.
Time: half a day or more on one core.
"""

import common
import numpy as np
from torch import nn

from pfrl_like import agents, explorers, optimizers, q_functions, replay_buffers

parser = common.make_parser(__doc__)
parser.add_argument("--final-exploration-frames", type=int, default=10**5, help="steps until the last epsilon")
parser.add_argument("--final-epsilon", type=float, default=0.1, help="share of random actions at last")
args = parser.parse_args()
env, eval_env = common.make_envs(args)
n_actions, n_channels = env.action_space.n, env.observation_space.shape[2]


def phi(obs):
    """Channels first, as floats; the replay buffer keeps the game's own bools."""
    return np.moveaxis(obs, -1, -3).astype(np.float32, order="C")


q_function = q_functions.ImplicitQuantileQFunction(
    psi=nn.Sequential(
        *(nn.Conv2d(n_channels, 16, 3), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(16 * 8 * 8, 128), nn.ReLU()),
    ),
    phi=nn.Sequential(q_functions.CosineBasisLinear(64, 128), nn.ReLU()),
    f=nn.Linear(128, n_actions),
)
agent = agents.IQN(
    q_function,
    optimizers.RMSpropEpsInsideSqrt(q_function.parameters(), lr=args.lr, alpha=0.95, eps=1e-2, centered=True),
    replay_buffers.ReplayBuffer(100_000),
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
)
common.run(args, agent, env, eval_env)
