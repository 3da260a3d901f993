"""Trains three agents on recorded episodes of Pendulum, judges them by the same data alone, and deploys the best.

    python examples/offline/train_pendulum.py

The return of each policy is estimated by fitted Q evaluation. Then the best one is exported, and played by a program
that has nothing but the file.
Time: about five minutes on one core.
"""

import common
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, datasets, experiments, explorers, ope, policies, replay_buffers
from pfrl_like import nn as pnn

GAMMA = 0.98


def make_layers(n_inputs, n_outputs):
    return [*(nn.Linear(n_inputs, 128), nn.ReLU()), *(nn.Linear(128, 128), nn.ReLU()), nn.Linear(128, n_outputs)]


def adam(module):
    return torch.optim.Adam(module.parameters(), lr=1e-3)


def make_agent(name):
    if name == "TD3PlusBC":
        head = policies.DeterministicHead()
    else:
        head = policies.GaussianHeadWithStateIndependentCovariance(1, "diagonal", var_func=lambda x: torch.exp(2 * x))
    policy = nn.Sequential(*make_layers(3, 1), nn.Tanh(), head)
    critics = [nn.Sequential(pnn.ConcatObsAndAction(), *make_layers(3 + 1, 1)) for _ in range(2)]
    options = {"minibatch_size": 128}
    if name == "TD3PlusBC":
        options["explorer"] = explorers.AdditiveGaussian(0.1, low=-1.0, high=1.0)
    if name == "IQL":
        v_func = nn.Sequential(*make_layers(3, 1))
        options |= {"v_func": v_func, "v_func_optimizer": adam(v_func), "expectile": 0.8}
    return getattr(agents, name)(
        policy,
        *critics,
        *map(adam, [policy, *critics]),
        replay_buffers.ReplayBuffer(100_000),  # empty: it is for learning online, later
        gamma=GAMMA,
        **options,
    )


parser = common.make_parser(__doc__, steps=5_000)
kinds = ["IQL", "TD3PlusBC", "AWAC"]
parser.add_argument("--agents", nargs="+", default=kinds, choices=kinds, help="kinds of agents")
args = common.start(parser)

dataset, env = datasets.get_pendulum()
trained = {}
for name in args.agents:
    agent = make_agent(name)
    experiments.train_agent_offline(agent, dataset, args.steps, f"{args.outdir}/{name}")
    estimate = ope.evaluate_offline(agent, dataset, gamma=GAMMA, deterministic=True, n_steps=args.steps)["fqe"]
    print(f"{name}, discounted return: {estimate}")
    trained[name] = (estimate.value, agent)
best = max(trained, key=lambda name: trained[name][0])
path = f"{args.outdir}/{common.POLICY}"
trained[best][1].export(path, example_obs=np.asarray(dataset.observations[:1_000]))
score = common.play(path, env, args.eval_n_runs)
print(f"{best} was taken; mean return of its exported policy, {path}: {score:.1f}")
