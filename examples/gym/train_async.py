"""A3C (arXiv:1602.01783) or ACER (arXiv:1611.01224) on CartPole, in several processes without a lock.

For example: `python examples/gym/train_async.py --agent ACER --processes 2`, then with `--demo --load` the directory of
the agent that it saved. One run of each with 2 processes: A3C was at 500 from 60,000 steps on, after 185 at 40,000;
ACER at 500 from 20,000 to 60,000, and at 446 in the end.
"""

import argparse
from functools import partial
from typing import Any

import common
import gymnasium
import torch
from torch import nn

from pfrl_like import agents, experiments, policies, q_functions, replay_buffers
from pfrl_like import nn as pnn
from pfrl_like.agents.acer import ACERDiscreteActionHead


def parse_args() -> argparse.Namespace:
    parser = common.make_short_parser(__doc__)
    parser.set_defaults(steps=100_000, eval_interval=10_000)
    parser.add_argument("--env", default="CartPole-v1", help="a registered environment of gymnasium")
    parser.add_argument("--agent", default="A3C", choices=["A3C", "ACER"], help="kind of agent")
    parser.add_argument("--processes", type=int, default=2, help="that act and learn, of one thread each")
    parser.add_argument("--t-max", type=int, default=20, help="steps between updates")
    parser.add_argument("--beta", type=float, default=1e-2, help="weight of the entropy")
    parser.add_argument("--lr", type=float, default=1e-3, help="Adam's learning rate, which falls to 0")
    parser.add_argument("--n-times-replay", type=int, default=4, help="ACER's updates from replay for each one without")
    parser.add_argument("--replay-start-size", type=int, default=1_000, help="steps of a process before these")
    return parser.parse_args()


def make_agent(args: argparse.Namespace, obs_size: int, n_actions: int) -> Any:
    def make_network(n_outputs: int, *head: nn.Module) -> nn.Sequential:
        return nn.Sequential(
            *(nn.Linear(obs_size, 64), nn.Tanh()), *(nn.Linear(64, 64), nn.Tanh()), nn.Linear(64, n_outputs), *head
        )

    policy = make_network(n_actions, policies.SoftmaxCategoricalHead())
    shared = {"t_max": args.t_max, "gamma": 0.99, "beta": args.beta, "act_deterministically": True}
    if args.agent == "A3C":
        model: nn.Module = pnn.Branched(policy, make_network(1))
        return agents.A3C(model, torch.optim.Adam(model.parameters(), lr=args.lr), **shared)
    model = ACERDiscreteActionHead(policy, make_network(n_actions, q_functions.DiscreteActionValueHead()))
    return agents.ACER(
        model,
        torch.optim.Adam(model.parameters(), lr=args.lr),
        replay_buffer=replay_buffers.EpisodicReplayBuffer(50_000),
        n_times_replay=args.n_times_replay,
        replay_start_size=args.replay_start_size,
        **shared,
    )


def make_env(args: argparse.Namespace, process_idx: int, test: bool) -> gymnasium.Env:
    env = common.make_envs(args, gymnasium.spaces.Discrete)[0]
    env.reset(seed=2**32 - 1 - args.seed if test else args.seed * args.processes + process_idx)
    return env


def main() -> None:
    args = parse_args()
    eval_env = make_env(args, 0, test=True)
    common.seed(args, eval_env, eval_env)
    agent = make_agent(args, eval_env.observation_space.shape[0], eval_env.action_space.n)

    def train(agent: Any, make_env: Any, eval_env: Any, step_hooks: Any, **options: Any) -> None:
        experiments.train_agent_async(
            agent=agent,
            make_env=make_env,
            processes=args.processes,
            random_seeds=[args.seed * args.processes + i for i in range(args.processes)],
            global_step_hooks=step_hooks,
            **options,
        )

    common.run(args, agent, partial(make_env, args), eval_env, lr=args.lr, train=train)


if __name__ == "__main__":
    main()
