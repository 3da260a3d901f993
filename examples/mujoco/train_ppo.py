"""Trains PPO on a MuJoCo task, with the settings that Henderson et al. compared it with (arXiv:1709.06560).

    python examples/mujoco/train_ppo.py --env HalfCheetah-v5
    python examples/mujoco/train_ppo.py --env HalfCheetah-v5 --demo --load DIRECTORY

Needs mujoco: the extra `mujoco`.
Time: about an hour on one core.
"""

import common
import torch
from torch import nn

from pfrl_like import agents, policies
from pfrl_like import nn as pnn


def main():
    parser = common.make_parser(__doc__)
    parser.set_defaults(steps=2 * 10**6, eval_interval=100_000, eval_n_runs=100)
    parser.add_argument("--lr", type=float, default=3e-4, help="Adam's learning rate")
    parser.add_argument("--update-interval", type=int, default=2048, help="steps between updates, of all environments")
    parser.add_argument("--batch-size", type=int, default=64, help="steps of a minibatch")
    parser.add_argument("--epochs", type=int, default=10, help="how often each step is learnt from")
    args, outdir = common.start(parser)
    env, eval_env = common.make_envs(args, outdir)
    obs_size, action_size = env.observation_space.shape[0], env.action_space.shape[0]

    policy = nn.Sequential(
        *(nn.Linear(obs_size, 64), nn.Tanh()),
        *(nn.Linear(64, 64), nn.Tanh()),
        nn.Linear(64, action_size),
        policies.GaussianHeadWithStateIndependentCovariance(
            action_size, var_type="diagonal", var_func=lambda x: torch.exp(2 * x), var_param_init=0
        ),
    )
    value_function = nn.Sequential(
        *(nn.Linear(obs_size, 64), nn.Tanh()), *(nn.Linear(64, 64), nn.Tanh()), nn.Linear(64, 1)
    )
    for network, last_gain in ((policy, 1e-2), (value_function, 1.0)):
        for layer, gain in ((network[0], 1.0), (network[2], 1.0), (network[4], last_gain)):
            nn.init.orthogonal_(layer.weight, gain)
            nn.init.zeros_(layer.bias)
    model = pnn.Branched(policy, value_function)
    agent = agents.PPO(
        model,
        torch.optim.Adam(model.parameters(), lr=args.lr, eps=1e-5),
        obs_normalizer=pnn.EmpiricalNormalization(obs_size, clip_threshold=5),
        gpu=args.gpu,
        gamma=0.995,
        lambd=0.97,
        entropy_coef=0,
        update_interval=args.update_interval,
        minibatch_size=args.batch_size,
        epochs=args.epochs,
        clip_eps=0.2,
        clip_eps_vf=None,
        standardize_advantages=True,
    )
    common.run(args, agent, outdir, env, eval_env)


if __name__ == "__main__":  # processes import this file
    main()
