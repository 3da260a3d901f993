"""Trains NAF (arXiv:1603.00748): DQN or Double DQN with a Q-function that is quadratic in continuous actions.

    python examples/gym/train_naf_pendulum.py --env Pendulum-v1
    python examples/gym/train_naf_pendulum.py --env Pendulum-v1 --demo --load DIRECTORY

Rewards are scaled, so that the returns of training are, too; scores of evaluations are not.
Time: about two minutes on one core.
"""

import common
import gymnasium
import torch

from pfrl_like import agents, explorers, q_functions, replay_buffers

parser = common.make_parser(__doc__)
parser.set_defaults(steps=20_000)
parser.add_argument("--env", default="Pendulum-v1", help="a registered environment with bounded continuous actions")
parser.add_argument("--gpu", type=int, help="CUDA device; the CPU without it")
parser.add_argument("--minibatch-size", type=int, default=64, help="transitions of an update")
parser.add_argument("--replay-start-size", type=int, default=1_000, help="steps before the first update")
parser.add_argument("--agent", default="DoubleDQN", choices=["DQN", "DoubleDQN"], help="kind of agent")
parser.add_argument("--gamma", type=float, default=0.99, help="discount factor per step")
parser.add_argument("--n-hidden-channels", type=int, default=100, help="width of the hidden layers")
parser.add_argument("--n-hidden-layers", type=int, default=2, help="how many there are")
parser.add_argument("--lr", type=float, default=1e-3, help="Adam's learning rate")
parser.add_argument("--soft-update-tau", type=float, default=1e-2, help="step of the target network, each update")
parser.add_argument("--reward-scale-factor", type=float, default=0.1, help="rewards are multiplied by it")
parser.add_argument("--noise", default="ou", choices=["ou", "gaussian"], help="kind of exploration")
parser.add_argument("--noise-scale", type=float, default=0.2, help="of the noise, in halves of the actions' range")
parser.add_argument("--num-step-return", type=int, default=1, help="steps of the return that is learnt from")
parser.add_argument("--prioritized-replay", action="store_true", help="draw transitions by their TD errors")
parser.add_argument("--render", action="store_true", help="show evaluations; needs pygame: the extra `classic`")
args = parser.parse_args()
env, eval_env = common.make_envs(args, gymnasium.spaces.Box, args.render)
action_space = env.action_space
env = gymnasium.wrappers.TransformReward(env, lambda reward: reward * args.reward_scale_factor)
common.seed(args, env, eval_env)

q_function = q_functions.FCQuadraticStateQFunction(
    env.observation_space.shape[0],
    action_space.shape[0],
    args.n_hidden_channels,
    args.n_hidden_layers,
    action_space,
)
noise_scale = args.noise_scale * (action_space.high - action_space.low) / 2
if args.noise == "ou":
    explorer = explorers.AdditiveOU(sigma=noise_scale)
else:
    explorer = explorers.AdditiveGaussian(noise_scale, action_space.low, action_space.high)
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
    target_update_interval=1,
    target_update_method="soft",
    soft_update_tau=args.soft_update_tau,
    max_grad_norm=10.0,
)
common.run(args, agent, env, eval_env)
