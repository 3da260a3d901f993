"""Trains AWAC on Pendulum, first on recorded episodes of little worth, then in the environment.

    python examples/offline/offline_then_online.py

Only random and half-trained play is learnt from. The replay buffer begins with these episodes (`from_dataset`), so that
nothing is forgotten at once.
Time: about a minute on one core.
"""

import common
import torch
from torch import nn

from pfrl_like import agents, datasets, experiments, policies, replay_buffers
from pfrl_like import nn as pnn
from pfrl_like.dataset import MDPDataset

parser = common.make_parser(__doc__, steps=3_000)
parser.add_argument("--online-steps", type=int, default=3_000, help="steps afterwards, at most --steps")
args = common.start(parser)

whole, env = datasets.get_pendulum()
env.reset(seed=args.seed)
# Random and medium play come first; an episode has a row more than steps.
n = sum(len(episode) + 1 for episode in whole.episodes[:50])
dataset = MDPDataset(
    *(rows[:n] for rows in (whole.observations, whole.actions, whole.rewards, whole.terminals)),
    timeouts=whole.timeouts[:n],
    reward_convention="next_row",
)
buffer = replay_buffers.ReplayBuffer.from_dataset(dataset)


def make_layers(n_inputs, n_outputs):
    return [*(nn.Linear(n_inputs, 128), nn.ReLU()), *(nn.Linear(128, 128), nn.ReLU()), nn.Linear(128, n_outputs)]


policy = nn.Sequential(*make_layers(3, 2), policies.SquashedGaussianHead())
critics = [nn.Sequential(pnn.ConcatObsAndAction(), *make_layers(3 + 1, 1)) for _ in range(2)]
agent = agents.AWAC(
    policy,
    *critics,
    *(torch.optim.Adam(network.parameters(), lr=1e-3) for network in (policy, *critics)),
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
print(f"mean return after learning offline: {offline:.1f}, and after learning online, too: {online:.1f}")
