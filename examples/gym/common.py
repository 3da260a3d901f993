"""Shared by the trainers of this folder: command-line arguments, environments, and the call of the runner."""

import argparse
from pathlib import Path

import gymnasium
import torch

from pfrl_like import experiments, utils


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, and the docstring as it is written."""


def make_parser(description):
    """The arguments of every trainer; `set_defaults` replaces their defaults."""
    parser = argparse.ArgumentParser(description=description, formatter_class=HelpFormatter)
    parser.add_argument("--outdir", default="results", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--steps", type=int, default=50_000, help="environment steps of training")
    parser.add_argument("--eval-n-runs", type=int, default=20, help="episodes of each evaluation")
    parser.add_argument("--eval-interval", type=int, default=5_000, help="steps between evaluations")
    parser.add_argument("--load", help="directory of a saved agent: in that of a run, <t>_finish or best")
    parser.add_argument("--demo", action="store_true", help="evaluate only")
    return parser


def make_envs(args, actions, render=False):
    """An environment to train in and one for evaluations, if their actions are of the class `actions`."""
    env, eval_env = gymnasium.make(args.env), gymnasium.make(args.env, render_mode="human" if render else None)
    if len(env.observation_space.shape or ()) != 1 or not isinstance(env.action_space, actions):
        kinds = {gymnasium.spaces.Discrete: "discrete", gymnasium.spaces.Box: "continuous"}
        fit = " or ".join(name for kind, name in kinds.items() if issubclass(kind, actions))
        raise SystemExit(
            f"{args.env} has the observations {env.observation_space} and the actions {env.action_space}, but this "
            f"example needs vectors and {fit} actions"
        )
    return env, eval_env


def seed(args, env, eval_env):
    """Seed everything; networks as small as these are slower on several threads."""
    torch.set_num_threads(1)
    utils.set_random_seed(args.seed)
    env.reset(seed=args.seed)
    eval_env.reset(seed=args.seed + 1)
    env.action_space.seed(args.seed)


def run(args, agent, env, eval_env, train=experiments.train_agent_with_evaluation, **options):
    """Load the agent that --load names; then evaluate it (--demo), or train it and print where it is.

    `train` is the runner; `options` are further arguments of it.
    """
    if args.load:
        agent.load(args.load)
    if args.demo:
        scores = experiments.eval_performance(eval_env, agent, n_steps=None, n_episodes=args.eval_n_runs)
        print(f"n_runs: {args.eval_n_runs} mean: {scores['mean']} median: {scores['median']} stdev: {scores['stdev']}")
        return
    outdir = experiments.prepare_output_dir(args, args.outdir)
    train(
        agent,
        env,
        steps=args.steps,
        eval_n_steps=None,
        eval_n_episodes=args.eval_n_runs,
        eval_interval=args.eval_interval,
        eval_env=eval_env,
        outdir=outdir,
        progress=True,
        **options,
    )
    saved = Path(outdir) / f"{args.steps}_finish"
    print(f"Results are in {outdir}; evaluate the agent with the same flags and --demo --load {saved}")
