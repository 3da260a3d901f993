"""Shared by the trainers of this folder: command-line arguments, games, and the call of the runner."""

import argparse
import logging
from pathlib import Path

import gymnasium
import torch

from pfrl_like import experiments, utils


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, and the docstring as it is written."""


def make_parser(description):
    """The arguments of every trainer."""
    parser = argparse.ArgumentParser(description=description, formatter_class=HelpFormatter)
    games = ["Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"]
    parser.add_argument("--env", default="Breakout", choices=games, help="game")
    parser.add_argument("--outdir", default="results", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--gpu", type=int, help="CUDA device; the CPU without it")
    parser.add_argument("--steps", type=int, default=5 * 10**6, help="environment steps of training")
    parser.add_argument("--lr", type=float, default=2.5e-4, help="learning rate")
    parser.add_argument("--batch-size", type=int, default=32, help="transitions of an update")
    parser.add_argument("--replay-start-size", type=int, default=5_000, help="steps before the first update")
    parser.add_argument("--update-interval", type=int, default=1, help="steps between updates")
    parser.add_argument("--target-update-interval", type=int, default=1_000, help="of the target network, in steps")
    parser.add_argument("--eval-interval", type=int, default=10**5, help="steps between evaluations")
    parser.add_argument("--eval-n-runs", type=int, default=20, help="episodes of each evaluation")
    parser.add_argument("--checkpoint-frequency", type=int, help="steps between saved agents")
    parser.add_argument("--load", help="directory of a saved agent: in that of a run, <t>_finish or best")
    parser.add_argument("--demo", action="store_true", help="evaluate only")
    parser.add_argument("--log-level", type=int, default=20, help="of Python's logging: 10 debug, 20 info, 30 warnings")
    return parser


def make_envs(args):
    """Seed everything, and make a game for training and one for evaluations."""
    try:
        from minatar.gym import register_envs
    except ImportError as error:
        raise SystemExit('this example needs MinAtar: install the extra "minatar", or "minatar>=1.0.15"') from error
    register_envs()
    logging.basicConfig(level=args.log_level)
    torch.set_num_threads(1)  # networks this small are slower on several threads
    utils.set_random_seed(args.seed)
    env, eval_env = gymnasium.make(f"MinAtar/{args.env}-v1"), gymnasium.make(f"MinAtar/{args.env}-v1")
    env.reset(seed=args.seed)
    eval_env.reset(seed=args.seed + 1)
    return env, eval_env


def run(args, agent, env, eval_env):
    """Load the agent that --load names; then evaluate it (--demo), or train it and print where it is."""
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
        checkpoint_freq=args.checkpoint_frequency,
        progress=True,
    )
    saved = Path(outdir) / f"{args.steps}_finish"
    print(f"Results are in {outdir}; evaluate the agent with the same flags and --demo --load {saved}")
