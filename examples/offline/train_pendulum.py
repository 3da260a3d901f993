"""Learn Pendulum from recorded episodes by several agents, judge them by the same data alone, and deploy the best.

What each policy would bring is told by fitted Q evaluation. Then the best one is exported, and played by a program that
has nothing but the file.
"""

import argparse
from typing import Any

import common
import gymnasium
import torch
from torch import nn

from pfrl_like import agents, datasets, experiments, explorers, ope, policies, replay_buffers
from pfrl_like import nn as pnn

GAMMA = 0.98


def add_flags(parser: argparse.ArgumentParser) -> None:
    kinds = ["IQL", "TD3PlusBC", "AWAC"]
    parser.add_argument("--agents", nargs="+", default=kinds, choices=kinds, help="kinds of agents")


def make_agent(name: str, env: gymnasium.Env) -> Any:
    """Every part is in sight."""
    if name == "TD3PlusBC":
        head: nn.Module = policies.DeterministicHead()
    else:
        head = policies.GaussianHeadWithStateIndependentCovariance(1, "diagonal", var_func=lambda x: torch.exp(2 * x))
    policy = nn.Sequential(*common.make_layers(3, 1), nn.Tanh(), head)
    critics = [nn.Sequential(pnn.ConcatObsAndAction(), *common.make_layers(3 + 1, 1)) for _ in range(2)]
    options: dict[str, Any] = {"minibatch_size": 128}
    if name == "TD3PlusBC":
        options["explorer"] = explorers.AdditiveGaussian(0.1, low=-1.0, high=1.0)
    if name == "IQL":
        v_func = nn.Sequential(*common.make_layers(3, 1))
        options |= {"v_func": v_func, "v_func_optimizer": common.adam(v_func), "expectile": 0.8}
    return getattr(agents, name)(
        policy,
        *critics,
        *map(common.adam, [policy, *critics]),
        replay_buffers.ReplayBuffer(100_000),  # empty: it is for learning online, later
        gamma=GAMMA,
        **options,
    )


def main() -> None:
    args = common.parse_args(__doc__, steps=5_000, add=add_flags)
    dataset, env = datasets.get_pendulum()
    trained = {}
    for name in args.agents:
        agent = make_agent(name, env)
        experiments.train_agent_offline(agent, dataset, args.steps, f"{args.outdir}/{name}")
        estimate = ope.evaluate_offline(agent, dataset, gamma=GAMMA, deterministic=True, n_steps=args.steps)["fqe"]
        print(f"{name}, discounted return: {estimate}")
        trained[name] = (estimate.value, agent)
    best = max(trained, key=lambda name: trained[name][0])
    score = common.play(common.deployed(trained[best][1], dataset, args.outdir), env, args.eval_n_runs)
    print(f"{best} was taken; mean return of its exported policy: {score:.1f}")


if __name__ == "__main__":
    main()
