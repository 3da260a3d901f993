"""Trains TD3 on a MuJoCo task, with the settings of its paper (arXiv:1802.09477, section 6.1).

    python examples/mujoco/train_td3.py --env HalfCheetah-v5
    python examples/mujoco/train_td3.py --env HalfCheetah-v5 --demo --load DIRECTORY

Needs mujoco: the extra `mujoco`.
Expect: `reproduction/td3` has scores, of shorter runs with other settings.
Time: about three hours on one core.
"""

import common
import torch
from torch import nn

from pfrl_like import agents, explorers, policies, replay_buffers
from pfrl_like import nn as pnn


def make_q_func(obs_size, action_size):
    return nn.Sequential(
        pnn.ConcatObsAndAction(),
        *(nn.Linear(obs_size + action_size, 400), nn.ReLU()),
        *(nn.Linear(400, 300), nn.ReLU()),
        nn.Linear(300, 1),
    )


def main():
    parser = common.make_parser(__doc__)
    parser.add_argument("--replay-start-size", type=int, default=10_000, help="random steps before the first update")
    parser.add_argument("--batch-size", type=int, default=100, help="transitions of an update")
    parser.add_argument("--lr", type=float, default=1e-3, help="Adam's learning rate, of policy and critics")
    args, outdir = common.start(parser)
    env, eval_env = common.make_envs(args, outdir, normalize_actions=True)
    obs_size, action_size = env.observation_space.shape[0], env.action_space.shape[0]

    policy = nn.Sequential(
        *(nn.Linear(obs_size, 400), nn.ReLU()),
        *(nn.Linear(400, 300), nn.ReLU()),
        *(nn.Linear(300, action_size), nn.Tanh()),
        policies.DeterministicHead(),
    )
    q_func1, q_func2 = make_q_func(obs_size, action_size), make_q_func(obs_size, action_size)
    agent = agents.TD3(
        policy,
        q_func1,
        q_func2,
        torch.optim.Adam(policy.parameters(), lr=args.lr),
        torch.optim.Adam(q_func1.parameters(), lr=args.lr),
        torch.optim.Adam(q_func2.parameters(), lr=args.lr),
        replay_buffers.ReplayBuffer(10**6),
        gamma=0.99,
        explorer=explorers.AdditiveGaussian(scale=0.1, low=env.action_space.low, high=env.action_space.high),
        gpu=args.gpu,
        replay_start_size=args.replay_start_size,
        minibatch_size=args.batch_size,
        soft_update_tau=5e-3,
        burnin_action_func=env.action_space.sample,
    )
    common.run(args, agent, outdir, env, eval_env)


if __name__ == "__main__":  # processes import this file
    main()
