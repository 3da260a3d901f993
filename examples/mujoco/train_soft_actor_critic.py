"""Trains Soft Actor-Critic on a MuJoCo task, with the settings of its paper (arXiv:1812.05905, appendix D).

    python examples/mujoco/train_soft_actor_critic.py --env HalfCheetah-v5
    python examples/mujoco/train_soft_actor_critic.py --env HalfCheetah-v5 --demo --load DIRECTORY

Needs mujoco: the extra `mujoco`.
Expect: `reproduction/soft_actor_critic` has scores, of shorter runs with other settings.
Time: about twelve hours on one core.
"""

import common
import torch
from torch import nn

from pfrl_like import agents, policies, replay_buffers
from pfrl_like import nn as pnn


def make_q_func(obs_size, action_size):
    q_func = nn.Sequential(
        pnn.ConcatObsAndAction(),
        *(nn.Linear(obs_size + action_size, 256), nn.ReLU()),
        *(nn.Linear(256, 256), nn.ReLU()),
        nn.Linear(256, 1),
    )
    for layer in q_func[1::2]:
        nn.init.xavier_uniform_(layer.weight)
    return q_func


def main():
    parser = common.make_parser(__doc__)
    parser.add_argument("--replay-start-size", type=int, default=10_000, help="random steps before the first update")
    parser.add_argument("--batch-size", type=int, default=256, help="transitions of an update")
    parser.set_defaults(steps=3 * 10**6)
    parser.add_argument("--lr", type=float, default=3e-4, help="Adam's learning rate, of policy, critics, temperature")
    parser.add_argument("--policy-output-scale", type=float, default=1.0, help="gain of the policy's last layer")
    args, outdir = common.start(parser)
    env, eval_env = common.make_envs(args, outdir, normalize_actions=True)
    obs_size, action_size = env.observation_space.shape[0], env.action_space.shape[0]

    policy = nn.Sequential(
        *(nn.Linear(obs_size, 256), nn.ReLU()),
        *(nn.Linear(256, 256), nn.ReLU()),
        nn.Linear(256, 2 * action_size),
        policies.SquashedGaussianHead(),
    )
    for layer, gain in ((policy[0], 1.0), (policy[2], 1.0), (policy[4], args.policy_output_scale)):
        nn.init.xavier_uniform_(layer.weight, gain)
    q_func1, q_func2 = make_q_func(obs_size, action_size), make_q_func(obs_size, action_size)
    agent = agents.SoftActorCritic(
        policy,
        q_func1,
        q_func2,
        torch.optim.Adam(policy.parameters(), lr=args.lr),
        torch.optim.Adam(q_func1.parameters(), lr=args.lr),
        torch.optim.Adam(q_func2.parameters(), lr=args.lr),
        replay_buffers.ReplayBuffer(10**6),
        gamma=0.99,
        gpu=args.gpu,
        replay_start_size=args.replay_start_size,
        minibatch_size=args.batch_size,
        soft_update_tau=5e-3,
        burnin_action_func=env.action_space.sample,
        entropy_target=-action_size,
        temperature_optimizer_lr=args.lr,
    )
    common.run(args, agent, outdir, env, eval_env)


if __name__ == "__main__":  # processes import this file
    main()
