"""Trains A3C (arXiv:1602.01783) or ACER (arXiv:1611.01224) on CartPole, in several processes without a lock.

    python examples/gym/train_async.py --agent ACER --processes 2
    python examples/gym/train_async.py --agent ACER --demo --load DIRECTORY

Expect: ACER 500.0 on CartPole after 100,000 steps and A3C 500.0 after 200,000 (two seeds each; three more did not
start). These are recorded scores of `benchmarks/scores.py`, whose settings differ from those here.
Time: about half an hour on a busy machine.
"""

from functools import partial

import common
import gymnasium
import torch
from torch import nn

from pfrl_like import agents, experiments, policies, q_functions, replay_buffers
from pfrl_like import nn as pnn
from pfrl_like.agents.acer import ACERDiscreteActionHead


def make_env(args, process_idx, test):
    env, _ = common.make_envs(args, gymnasium.spaces.Discrete)
    env.reset(seed=2**32 - 1 - args.seed if test else args.seed * args.processes + process_idx)
    return env


def set_learning_rate(env, agent, value):
    for group in agent.optimizer.param_groups:
        group["lr"] = value


def main():
    parser = common.make_parser(__doc__)
    parser.set_defaults(steps=100_000, eval_interval=10_000)
    parser.add_argument("--env", default="CartPole-v1", help="a registered environment of gymnasium")
    parser.add_argument("--agent", default="A3C", choices=["A3C", "ACER"], help="kind of agent")
    parser.add_argument("--processes", type=int, default=2, help="that act and learn, of one thread each")
    parser.add_argument("--t-max", type=int, default=20, help="steps between updates")
    parser.add_argument("--beta", type=float, default=1e-2, help="weight of the entropy")
    parser.add_argument("--lr", type=float, default=1e-3, help="Adam's learning rate, which falls to 0")
    parser.add_argument("--n-times-replay", type=int, default=4, help="ACER's updates from replay for each one without")
    parser.add_argument("--replay-start-size", type=int, default=1_000, help="steps of a process before these")
    args = parser.parse_args()
    eval_env = make_env(args, 0, test=True)
    common.seed(args, eval_env, eval_env)
    obs_size, n_actions = eval_env.observation_space.shape[0], eval_env.action_space.n

    def make_layers(n_outputs):
        return [*(nn.Linear(obs_size, 64), nn.Tanh()), *(nn.Linear(64, 64), nn.Tanh()), nn.Linear(64, n_outputs)]

    policy = nn.Sequential(*make_layers(n_actions), policies.SoftmaxCategoricalHead())
    shared = {"t_max": args.t_max, "gamma": 0.99, "beta": args.beta, "act_deterministically": True}
    if args.agent == "A3C":
        model = pnn.Branched(policy, nn.Sequential(*make_layers(1)))
        agent = agents.A3C(model, torch.optim.Adam(model.parameters(), lr=args.lr), **shared)
    else:
        q_function = nn.Sequential(*make_layers(n_actions), q_functions.DiscreteActionValueHead())
        model = ACERDiscreteActionHead(policy, q_function)
        agent = agents.ACER(
            model,
            torch.optim.Adam(model.parameters(), lr=args.lr),
            replay_buffer=replay_buffers.EpisodicReplayBuffer(50_000),
            n_times_replay=args.n_times_replay,
            replay_start_size=args.replay_start_size,
            **shared,
        )

    def train(agent, make_env, eval_env, **options):  # the first process evaluates, in an environment of its own
        experiments.train_agent_async(agent=agent, make_env=make_env, **options)

    decay = experiments.LinearInterpolationHook(args.steps, args.lr, 0.0, set_learning_rate)
    common.run(
        args, agent, partial(make_env, args), eval_env, train,
        processes=args.processes,
        random_seeds=[args.seed * args.processes + i for i in range(args.processes)],
        global_step_hooks=[decay],
    )  # fmt: skip


if __name__ == "__main__":  # processes import this file
    main()
