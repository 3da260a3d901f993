"""Trains Rainbow (arXiv:1710.02298) on CartPole, or with other vector observations and discrete actions.

    python examples/gym/train_rainbow.py --env CartPole-v1
    python examples/gym/train_rainbow.py --env CartPole-v1 --demo --load DIRECTORY

Rainbow is Categorical Double DQN with a dueling network, noisy layers, prioritised replay and returns over three steps.
Expect: Rainbow 500.0 [500.0, 500.0] on CartPole after 50,000 steps (10 seeds). These are recorded scores [95 %
interval] of `benchmarks/scores.py`, whose settings differ from those here.
Time: about four minutes on one core.
"""

import common
import gymnasium
import torch
from torch import nn

from pfrl_like import agents, experiments, explorers, q_functions, replay_buffers
from pfrl_like.nn import to_factorized_noisy

parser = common.make_parser(__doc__)
parser.add_argument("--env", default="CartPole-v1", help="a registered environment of gymnasium")
parser.add_argument("--gpu", type=int, help="CUDA device; the CPU without it")
parser.add_argument("--n-hidden-channels", type=int, default=256, help="width of the two hidden layers")
parser.add_argument("--lr", type=float, default=2.3e-3, help="Adam's learning rate at first; 0 at last")
parser.add_argument("--gamma", type=float, default=0.99, help="discount factor per step")
parser.add_argument("--minibatch-size", type=int, default=64, help="transitions of an update")
parser.add_argument("--replay-start-size", type=int, default=1_000, help="steps before the first update")
parser.add_argument("--update-interval", type=int, default=256, help="steps between rounds of updates")
parser.add_argument("--n-times-update", type=int, default=128, help="updates in a round")
parser.add_argument("--target-update-interval", type=int, default=256, help="of the target network, in steps")
parser.add_argument("--num-step-return", type=int, default=3, help="steps of the return that is learnt from")
parser.add_argument("--n-atoms", type=int, default=51, help="atoms of a return distribution")
parser.add_argument("--v-max", type=float, default=100.0, help="largest return that can be told apart; least is 0")
parser.add_argument("--noisy-net-sigma", type=float, default=0.5, help="scale of the noise that explores")
args = parser.parse_args()
env, eval_env = common.make_envs(args, gymnasium.spaces.Discrete)
common.seed(args, env, eval_env)
obs_size, n_actions, hidden = env.observation_space.shape[0], int(env.action_space.n), args.n_hidden_channels

features = nn.Sequential(nn.Linear(obs_size, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
streams = q_functions.DuelingStreams(
    nn.Sequential(nn.Linear(hidden, n_actions * args.n_atoms), nn.Unflatten(1, (n_actions, args.n_atoms))),
    nn.Sequential(nn.Linear(hidden, args.n_atoms), nn.Unflatten(1, (1, args.n_atoms))),
)
to_factorized_noisy(streams, sigma_scale=args.noisy_net_sigma)
atoms = q_functions.DistributionalSingleModelStateQFunctionWithDiscreteAction(
    nn.Sequential(streams, nn.Softmax(2)), torch.linspace(0.0, args.v_max, args.n_atoms)
)
q_function = nn.Sequential(features, atoms)
n_updates = max(1, args.steps // args.update_interval * args.n_times_update)  # the last corrects the draws in full
replay_buffer = replay_buffers.PrioritizedReplayBuffer(
    50_000, 0.5, 0.4, n_updates, normalize_by_max="memory", num_steps=args.num_step_return
)
agent = agents.CategoricalDoubleDQN(
    q_function,
    torch.optim.Adam(q_function.parameters(), lr=args.lr),
    replay_buffer,
    gamma=args.gamma,
    explorer=explorers.Greedy(),  # the noise of the layers explores
    gpu=args.gpu,
    replay_start_size=args.replay_start_size,
    minibatch_size=args.minibatch_size,
    update_interval=args.update_interval,
    n_times_update=args.n_times_update,
    target_update_interval=args.target_update_interval,
    max_grad_norm=10.0,
)


def set_learning_rate(env, agent, value):
    for group in agent.optimizer.param_groups:
        group["lr"] = value


decay = experiments.LinearInterpolationHook(args.steps, args.lr, 0.0, set_learning_rate)
common.run(args, agent, env, eval_env, step_hooks=[decay])
