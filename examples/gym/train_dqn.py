"""Trains DQN or Double DQN on CartPole, or on another environment with vector observations and discrete actions.

    python examples/gym/train_dqn.py --env CartPole-v1
    python examples/gym/train_dqn.py --env CartPole-v1 --demo --load DIRECTORY

Expect: DQN 499.2 [497.6, 500.0], Double DQN 464.3 [397.6, 500.0] on CartPole after 50,000 steps (10 seeds). These are
recorded scores [95 % interval] of `benchmarks/scores.py`, whose settings differ from those here.
Time: about two minutes on one core.
"""

import common
import gymnasium
import torch

from pfrl_like import agents, explorers, q_functions, replay_buffers

parser = common.make_parser(__doc__)
parser.add_argument("--env", default="CartPole-v1", help="a registered environment of gymnasium")
parser.add_argument("--agent", default="DQN", choices=["DQN", "DoubleDQN"], help="kind of agent")
parser.add_argument("--gpu", type=int, help="CUDA device; the CPU without it")
parser.add_argument("--n-hidden-channels", type=int, default=128, help="width of the hidden layers")
parser.add_argument("--n-hidden-layers", type=int, default=2, help="how many there are")
parser.add_argument("--lr", type=float, default=1e-3, help="Adam's learning rate")
parser.add_argument("--gamma", type=float, default=0.99, help="discount factor per step")
parser.add_argument("--minibatch-size", type=int, default=64, help="transitions of an update")
parser.add_argument("--replay-start-size", type=int, default=1_000, help="steps before the first update")
parser.add_argument("--update-interval", type=int, default=2, help="steps between updates")
parser.add_argument("--target-update-interval", type=int, default=200, help="of the target network, in steps")
parser.add_argument("--start-epsilon", type=float, default=1.0, help="share of random actions at first")
parser.add_argument("--end-epsilon", type=float, default=0.04, help="and at last")
parser.add_argument("--final-exploration-steps", type=int, default=8_000, help="steps until the last epsilon")
parser.add_argument("--num-step-return", type=int, default=1, help="steps of the return that is learnt from")
parser.add_argument("--prioritized-replay", action="store_true", help="draw transitions by their TD errors")
parser.add_argument("--compile", action="store_true", help="compile the update, in about half a minute")
parser.add_argument("--render", action="store_true", help="show evaluations; needs pygame: the extra `classic`")
args = parser.parse_args()
env, eval_env = common.make_envs(args, gymnasium.spaces.Discrete, args.render)
common.seed(args, env, eval_env)

q_function = q_functions.FCStateQFunctionWithDiscreteAction(
    env.observation_space.shape[0], env.action_space.n, args.n_hidden_channels, args.n_hidden_layers
)
explorer = explorers.LinearDecayEpsilonGreedy(
    args.start_epsilon, args.end_epsilon, args.final_exploration_steps, env.action_space.sample
)
make_buffer = replay_buffers.PrioritizedReplayBuffer if args.prioritized_replay else replay_buffers.ReplayBuffer
agent = getattr(agents, args.agent)(
    q_function,
    torch.optim.Adam(q_function.parameters(), lr=args.lr),
    make_buffer(100_000, num_steps=args.num_step_return),
    gamma=args.gamma,
    explorer=explorer,
    gpu=args.gpu,
    replay_start_size=args.replay_start_size,
    minibatch_size=args.minibatch_size,
    update_interval=args.update_interval,
    target_update_interval=args.target_update_interval,
    max_grad_norm=10.0,
    compile=args.compile,
)
common.run(args, agent, env, eval_env)
