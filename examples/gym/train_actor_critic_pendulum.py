"""Trains Soft Actor-Critic, TD3 or DDPG on Pendulum, or on another task with bounded continuous actions.

    python examples/gym/train_actor_critic_pendulum.py --agent TD3
    python examples/gym/train_actor_critic_pendulum.py --agent TD3 --demo --load DIRECTORY

Expect: Soft Actor-Critic -120.6 [-121.2, -120.2], TD3 -121.8 [-123.5, -120.5], DDPG -122.5 [-125.1, -120.8] on Pendulum
after 20,000 steps (5 seeds). These are recorded scores [95 % interval] of `benchmarks/scores.py`, whose settings differ
from those here.
Time: about three minutes on one core.
"""

import common
import gymnasium
import torch
from torch import nn

from pfrl_like import agents, explorers, policies, replay_buffers, wrappers
from pfrl_like import nn as pnn

parser = common.make_parser(__doc__)
parser.set_defaults(steps=20_000)
parser.add_argument("--env", default="Pendulum-v1", help="a registered environment with bounded continuous actions")
parser.add_argument("--gpu", type=int, help="CUDA device; the CPU without it")
parser.add_argument("--minibatch-size", type=int, default=128, help="transitions of an update")
parser.add_argument("--replay-start-size", type=int, default=1_000, help="steps before the first update")
parser.add_argument(
    "--agent", default="SoftActorCritic", choices=["SoftActorCritic", "TD3", "DDPG"], help="kind of agent"
)
parser.add_argument("--gamma", type=float, default=0.98, help="discount factor per step")
parser.add_argument("--lr", type=float, default=1e-3, help="Adam's learning rate")
parser.add_argument("--num-step-return", type=int, default=1, help="steps of the return that is learnt from")
parser.add_argument("--prioritized-replay", action="store_true", help="draw transitions by their TD errors")
parser.add_argument("--render", action="store_true", help="show evaluations; needs pygame: the extra `classic`")
args = parser.parse_args()
env, eval_env = map(wrappers.NormalizeActionSpace, common.make_envs(args, gymnasium.spaces.Box, args.render))
common.seed(args, env, eval_env)
obs_size, action_size = env.observation_space.shape[0], env.action_space.shape[0]


def make_layers(n_inputs, n_outputs):
    return [*(nn.Linear(n_inputs, 128), nn.ReLU()), *(nn.Linear(128, 128), nn.ReLU()), nn.Linear(128, n_outputs)]


if args.agent == "SoftActorCritic":
    policy = nn.Sequential(*make_layers(obs_size, 2 * action_size), policies.SquashedGaussianHead())
else:
    policy = nn.Sequential(*make_layers(obs_size, action_size), nn.Tanh(), policies.DeterministicHead())
n_critics = 1 if args.agent == "DDPG" else 2
critics = [nn.Sequential(pnn.ConcatObsAndAction(), *make_layers(obs_size + action_size, 1)) for _ in range(n_critics)]
networks = [policy, *critics]
optimizers = [torch.optim.Adam(network.parameters(), lr=args.lr) for network in networks]
make_buffer = replay_buffers.PrioritizedReplayBuffer if args.prioritized_replay else replay_buffers.ReplayBuffer

options = {"explorer": explorers.AdditiveGaussian(0.1, low=-1.0, high=1.0)}
if args.agent == "SoftActorCritic":
    options = {"entropy_target": -action_size, "temperature_optimizer_lr": args.lr}
if args.agent == "DDPG":  # the others move their targets so by themselves
    options |= {"target_update_method": "soft", "target_update_interval": 1}
agent = getattr(agents, args.agent)(
    *networks,
    *optimizers,
    make_buffer(100_000, num_steps=args.num_step_return),
    gamma=args.gamma,
    gpu=args.gpu,
    replay_start_size=args.replay_start_size,
    minibatch_size=args.minibatch_size,
    soft_update_tau=0.01,
    burnin_action_func=env.action_space.sample,
    **options,
)
common.run(args, agent, env, eval_env)
