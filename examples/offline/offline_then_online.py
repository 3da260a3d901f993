"""Learn Pendulum from recorded episodes of little worth, then go on in the environment with the same agent.

Only random and half-trained play is learnt from. The replay buffer begins with these episodes (`from_dataset`), so that
nothing is forgotten at once.
"""

import argparse

import common
from torch import nn

from pfrl_like import agents, datasets, experiments, policies, replay_buffers
from pfrl_like import nn as pnn
from pfrl_like.dataset import MDPDataset


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--online-steps", type=int, default=3_000, help="steps afterwards, at most --steps")


def main() -> None:
    args = common.parse_args(__doc__, steps=3_000, add=add_flags)
    whole, env = datasets.get_pendulum()
    # Random and medium play come first; an episode has a row more than steps.
    n = sum(len(episode) + 1 for episode in whole.episodes[:50])
    dataset = MDPDataset(
        *(rows[:n] for rows in (whole.observations, whole.actions, whole.rewards, whole.terminals)),
        timeouts=whole.timeouts[:n],
        reward_convention="next_row",
    )
    buffer = replay_buffers.ReplayBuffer.from_dataset(dataset)
    policy = nn.Sequential(*common.make_layers(3, 2), policies.SquashedGaussianHead())
    critics = [nn.Sequential(pnn.ConcatObsAndAction(), *common.make_layers(3 + 1, 1)) for _ in range(2)]
    agent = agents.AWAC(
        policy,
        *critics,
        *map(common.adam, [policy, *critics]),
        buffer,
        gamma=0.98,
        minibatch_size=128,
        replay_start_size=len(buffer),
        act_deterministically=True,
    )
    experiments.train_agent_offline(agent, buffer, args.steps, f"{args.outdir}/offline")
    offline = experiments.eval_performance(env, agent, None, args.eval_n_runs)["mean"]
    experiments.train_agent(agent, env, min(args.online_steps, args.steps), f"{args.outdir}/online")
    online = experiments.eval_performance(env, agent, None, args.eval_n_runs)["mean"]
    print(f"mean return after learning offline: {offline:.1f}, and after going on online: {online:.1f}")


if __name__ == "__main__":
    main()
