"""Learn Pendulum from recorded episodes by IQL or another offline agent, keep the best agent, and deploy its policy."""

import argparse
from typing import Any

import common
import gymnasium
import torch
from torch import nn

from pfrl_like import agents, datasets, experiments, explorers, policies, replay_buffers
from pfrl_like import nn as pnn

GAMMA = 0.98


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--agent", default="IQL", choices=["IQL", "TD3PlusBC", "AWAC"], help="kind of agent")
    parser.add_argument("--eval-interval", type=int, default=1_000, help="updates between evaluations")


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
    args = common.parse_args(__doc__, steps=10_000, add=add_flags)
    dataset, env = datasets.get_pendulum()
    agent = make_agent(args.agent, env)
    agent, history = experiments.train_agent_offline(
        agent,
        dataset,
        args.steps,
        args.outdir,
        eval_env=env,
        eval_n_episodes=args.eval_n_runs,
        eval_interval=min(args.eval_interval, args.steps),
    )
    print("returns of the evaluations:", ", ".join(f"{row['eval_score']:.0f}" for row in history))
    agent.load(f"{args.outdir}/best")
    score = common.play(common.deployed(agent, dataset, args.outdir), env, args.eval_n_runs)
    print(f"mean return of the best agent's exported policy: {score:.1f}")


if __name__ == "__main__":
    main()
