"""What the trainers of this folder share: flags, environments, and the way through a demonstration or a training."""

import argparse
from pathlib import Path
from typing import Any

import gymnasium
import torch

from pfrl_like import experiments, utils


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """The flags of every trainer; `set_defaults` gives other defaults."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--outdir", default="results", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--gpu", type=int, default=None, help="CUDA device; the CPU without it")
    parser.add_argument("--steps", type=int, default=50_000, help="environment steps of training")
    parser.add_argument("--minibatch-size", type=int, default=64, help="transitions, or sequences, of an update")
    parser.add_argument("--replay-start-size", type=int, default=1_000, help="steps before the first update")
    parser.add_argument("--eval-n-runs", type=int, default=20, help="episodes of each evaluation")
    parser.add_argument("--eval-interval", type=int, default=5_000, help="steps between evaluations")
    parser.add_argument("--load", default=None, help="directory of a saved agent: in that of a run, <t>_finish or best")
    parser.add_argument("--demo", action="store_true", help="evaluate only")
    return parser


def add_discrete_flags(parser: argparse.ArgumentParser, agents: list[str]) -> None:
    """Those of agents that choose among the actions of any environment with vector observations."""
    parser.add_argument("--env", default="CartPole-v1", help="a registered environment of gymnasium")
    parser.add_argument("--agent", default=agents[0], choices=agents, help="kind of agent")
    parser.add_argument("--gamma", type=float, default=0.99, help="discount factor per step")
    parser.add_argument("--update-interval", type=int, default=2, help="steps between updates")
    parser.add_argument("--target-update-interval", type=int, default=200, help="of the target network")
    parser.add_argument("--final-exploration-steps", type=int, default=8_000, help="steps until the last epsilon")


def make_envs(args: argparse.Namespace, actions: type, render: bool = False) -> tuple[gymnasium.Env, gymnasium.Env]:
    """The environment and one for evaluations, whose actions are of the kind that the trainer needs."""
    env, eval_env = gymnasium.make(args.env), gymnasium.make(args.env, render_mode="human" if render else None)
    if len(env.observation_space.shape or ()) != 1 or not isinstance(env.action_space, actions):
        raise SystemExit(
            f"{args.env} has the observations {env.observation_space} and the actions {env.action_space}, but this "
            f"example needs vectors and {'discrete' if actions is gymnasium.spaces.Discrete else 'continuous'} actions"
        )
    return env, eval_env


def seed(args: argparse.Namespace, env: gymnasium.Env, eval_env: gymnasium.Env) -> None:
    """Seed everything; networks as small as these are slower on several threads."""
    torch.set_num_threads(1)
    utils.set_random_seed(args.seed)
    env.reset(seed=args.seed)
    eval_env.reset(seed=args.seed + 1)
    env.action_space.seed(args.seed)


def run(
    args: argparse.Namespace, agent: Any, env: gymnasium.Env, eval_env: gymnasium.Env, lr: float | None = None
) -> None:
    """Load the agent that the flags name, then demonstrate it, or train it and say where it is.

    With `lr` the learning rate falls linearly from there to 0, times the `lr_factor` of a group of parameters.
    """
    if args.load:
        agent.load(args.load)
    if args.demo:
        scores = experiments.eval_performance(eval_env, agent, n_steps=None, n_episodes=args.eval_n_runs)
        print(f"n_runs: {args.eval_n_runs} mean: {scores['mean']} median: {scores['median']} stdev: {scores['stdev']}")
        return
    outdir = experiments.prepare_output_dir(args, args.outdir)
    experiments.train_agent_with_evaluation(
        agent,
        env,
        steps=args.steps,
        eval_n_steps=None,
        eval_n_episodes=args.eval_n_runs,
        eval_interval=args.eval_interval,
        eval_env=eval_env,
        outdir=outdir,
        step_hooks=[] if lr is None else [experiments.LinearInterpolationHook(args.steps, lr, 0.0, set_learning_rate)],
        progress=True,
    )
    saved = Path(outdir) / f"{args.steps}_finish"
    print(f"Results are in {outdir}; evaluate the agent with the same flags and --demo --load {saved}")


def set_learning_rate(env: Any, agent: Any, value: float) -> None:
    for group in agent.optimizer.param_groups:
        group["lr"] = value * group.get("lr_factor", 1.0)
