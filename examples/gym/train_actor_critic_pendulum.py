"""Soft Actor-Critic, TD3 or DDPG on Pendulum, or on another task with continuous actions.

For example: `python examples/gym/train_actor_critic_pendulum.py --agent TD3`, then with `--demo --load` the directory
of the agent that it saved. With seed 0 evaluations at 5,000 and 20,000 steps gave -134 and -135 (Soft Actor-Critic),
-144 and -141 (TD3).
"""

import argparse
from typing import Any

import common
import gymnasium
import torch
from torch import nn

from pfrl_like import agents, explorers, policies, replay_buffers, wrappers
from pfrl_like import nn as pnn


def parse_args() -> argparse.Namespace:
    parser = common.make_parser(__doc__)
    parser.set_defaults(steps=20_000, minibatch_size=128)
    parser.add_argument("--env", default="Pendulum-v1", help="a registered environment with bounded continuous actions")
    parser.add_argument(
        "--agent", default="SoftActorCritic", choices=["SoftActorCritic", "TD3", "DDPG"], help="kind of agent"
    )
    parser.add_argument("--gamma", type=float, default=0.98, help="discount factor per step")
    parser.add_argument("--lr", type=float, default=1e-3, help="Adam's learning rate")
    parser.add_argument("--num-step-return", type=int, default=1, help="steps of the return that is learnt from")
    parser.add_argument("--prioritized-replay", action="store_true", help="draw transitions by their TD errors")
    parser.add_argument("--render", action="store_true", help="show evaluations; needs pygame: the extra `classic`")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    env, eval_env = map(wrappers.NormalizeActionSpace, common.make_envs(args, gymnasium.spaces.Box, args.render))
    common.seed(args, env, eval_env)
    obs_size, action_size = env.observation_space.shape[0], env.action_space.shape[0]

    def make_layers(n_inputs: int, n_outputs: int) -> list[nn.Module]:
        return [*(nn.Linear(n_inputs, 128), nn.ReLU()), *(nn.Linear(128, 128), nn.ReLU()), nn.Linear(128, n_outputs)]

    if args.agent == "SoftActorCritic":
        policy = nn.Sequential(*make_layers(obs_size, 2 * action_size), policies.SquashedGaussianHead())
    else:
        policy = nn.Sequential(*make_layers(obs_size, action_size), nn.Tanh(), policies.DeterministicHead())
    n_critics = 1 if args.agent == "DDPG" else 2
    critics = [
        nn.Sequential(pnn.ConcatObsAndAction(), *make_layers(obs_size + action_size, 1)) for _ in range(n_critics)
    ]
    networks = [policy, *critics]
    optimizers = [torch.optim.Adam(network.parameters(), lr=args.lr) for network in networks]
    make_buffer = replay_buffers.PrioritizedReplayBuffer if args.prioritized_replay else replay_buffers.ReplayBuffer

    options: dict[str, Any] = {"explorer": explorers.AdditiveGaussian(0.1, low=-1.0, high=1.0)}
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


if __name__ == "__main__":
    main()
