"""Trains Categorical DQN (C51, arXiv:1707.06887), plain or double, on CartPole or with other discrete actions.

    python examples/gym/train_categorical_dqn.py --env CartPole-v1
    python examples/gym/train_categorical_dqn.py --env CartPole-v1 --demo --load DIRECTORY

Expect: Categorical DQN 500.0 [500.0, 500.0], its double form 500.0 [500.0, 500.0] on CartPole after 50,000 steps (10
seeds). These are recorded scores [95 % interval] of `benchmarks/scores.py`, whose settings differ from those here.
Time: about four minutes on one core.
"""

import common
import gymnasium
import torch

from pfrl_like import agents, explorers, q_functions, replay_buffers

parser = common.make_parser(__doc__)
kinds = ["CategoricalDQN", "CategoricalDoubleDQN"]
parser.add_argument("--env", default="CartPole-v1", help="a registered environment of gymnasium")
parser.add_argument("--agent", default="CategoricalDQN", choices=kinds, help="kind of agent")
parser.add_argument("--gpu", type=int, help="CUDA device; the CPU without it")
parser.add_argument("--n-atoms", type=int, default=51, help="atoms of a return distribution")
parser.add_argument("--v-min", type=float, default=0.0, help="smallest return that can be told apart")
parser.add_argument("--v-max", type=float, default=100.0, help="largest; about the largest reward / (1 - gamma)")
parser.add_argument("--gamma", type=float, default=0.99, help="discount factor per step")
parser.add_argument("--minibatch-size", type=int, default=64, help="transitions of an update")
parser.add_argument("--replay-start-size", type=int, default=1_000, help="steps before the first update")
parser.add_argument("--update-interval", type=int, default=2, help="steps between updates")
parser.add_argument("--target-update-interval", type=int, default=200, help="of the target network, in steps")
parser.add_argument("--final-exploration-steps", type=int, default=8_000, help="steps until the last epsilon")
args = parser.parse_args()
env, eval_env = common.make_envs(args, gymnasium.spaces.Discrete)
common.seed(args, env, eval_env)

q_function = q_functions.DistributionalFCStateQFunctionWithDiscreteAction(
    env.observation_space.shape[0],
    env.action_space.n,
    args.n_atoms,
    args.v_min,
    args.v_max,
    n_hidden_channels=128,
    n_hidden_layers=2,
)
agent = getattr(agents, args.agent)(
    q_function,
    torch.optim.Adam(q_function.parameters(), lr=1e-3),
    replay_buffers.ReplayBuffer(100_000),
    gamma=args.gamma,
    explorer=explorers.LinearDecayEpsilonGreedy(1.0, 0.04, args.final_exploration_steps, env.action_space.sample),
    gpu=args.gpu,
    replay_start_size=args.replay_start_size,
    minibatch_size=args.minibatch_size,
    update_interval=args.update_interval,
    target_update_interval=args.target_update_interval,
)
common.run(args, agent, env, eval_env)
