"""Trains a recurrent DQN on a CartPole whose velocities are hidden: the network has to remember positions.

    python examples/gym/train_recurrent_dqn.py
    python examples/gym/train_recurrent_dqn.py --demo --load DIRECTORY

Rewards are scaled, so that the returns of training are, too; scores of evaluations are not.
Expect: DQN 496.5 [490.2, 500.0] on this CartPole after 100,000 steps (5 seeds). These are recorded scores [95 %
interval] of `benchmarks/scores.py`, whose settings differ from those here.
Time: about eight minutes on one core.
"""

import common
import gymnasium
import torch
from torch import nn

from pfrl_like import agents, experiments, explorers, q_functions, replay_buffers, wrappers
from pfrl_like.nn import RecurrentSequential

parser = common.make_parser(__doc__)
parser.set_defaults(steps=100_000, eval_interval=10_000)
parser.add_argument("--gpu", type=int, help="CUDA device; the CPU without it")
parser.add_argument("--minibatch-size", type=int, default=64, help="sequences of an update")
parser.add_argument("--replay-start-size", type=int, default=1_000, help="steps before the first update")
parser.add_argument("--episodic-update-len", type=int, default=20, help="steps of a training sequence")
parser.add_argument("--num-steps", type=int, default=3, help="of the returns within a sequence")
parser.add_argument("--update-interval", type=int, default=256, help="steps between rounds of updates")
parser.add_argument("--n-times-update", type=int, default=32, help="updates in a round")
parser.add_argument("--target-update-interval", type=int, default=256, help="of the target network, in steps")
args = parser.parse_args()
env, eval_env = (
    wrappers.SelectFeatures(gymnasium.make("CartPole-v1"), [0, 2], [5.0, 20.0])  # the position, and the pole's angle
    for _ in range(2)
)
common.seed(args, env, eval_env)

q_function = RecurrentSequential(
    nn.GRU(2, 128),
    nn.Linear(128, env.action_space.n),
    q_functions.DiscreteActionValueHead(),
)
agent = agents.DQN(
    q_function,
    torch.optim.Adam(q_function.parameters(), lr=1e-3),
    replay_buffers.EpisodicReplayBuffer(50_000, by_length=True),
    gamma=0.99,
    explorer=explorers.LinearDecayEpsilonGreedy(1.0, 0.05, 8_000, env.action_space.sample),
    gpu=args.gpu,
    replay_start_size=args.replay_start_size,
    minibatch_size=args.minibatch_size,
    update_interval=args.update_interval,
    n_times_update=args.n_times_update,
    target_update_interval=args.target_update_interval,
    num_steps=args.num_steps,
    episodic_update_len=args.episodic_update_len,
    recurrent=True,
    max_grad_norm=10.0,
)


def set_learning_rate(env, agent, value):
    for group in agent.optimizer.param_groups:
        group["lr"] = value


decay = experiments.LinearInterpolationHook(args.steps, 1e-3, 0.0, set_learning_rate)
env = wrappers.ScaleReward(env, 0.01)  # so that a GRU can give such values
common.run(args, agent, env, eval_env, step_hooks=[decay])
