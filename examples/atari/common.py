"""Shared by the trainers of this folder: command-line arguments, games, and the call of the runner."""

import argparse
import json
import logging
from functools import partial
from pathlib import Path

import torch

from pfrl_like import envs, experiments, utils, wrappers
from pfrl_like.wrappers import atari_wrappers


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, and the docstring as it is written."""


def make_parser(description):
    """The arguments of every trainer; `set_defaults` replaces their defaults by those of a paper."""
    parser = argparse.ArgumentParser(description=description, formatter_class=HelpFormatter)
    parser.add_argument("--env", default="BreakoutNoFrameskip-v4", help="a game, as PongNoFrameskip-v4 or ALE/Pong-v5")
    parser.add_argument("--outdir", default="results", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--steps", type=int, default=10**7, help="steps of training, of four frames each")
    parser.add_argument("--max-frames", type=int, default=30 * 60 * 60, help="frames after which a game is cut off")
    parser.add_argument("--lr", type=float, default=2.5e-4, help="learning rate")
    parser.add_argument("--eval-epsilon", type=float, default=0.0, help="share of random actions in evaluations")
    parser.add_argument("--eval-interval", type=int, default=10**5, help="steps between evaluations")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--eval-n-runs", type=int, help="episodes of each evaluation")
    length.add_argument("--eval-n-steps", type=int, help="steps of each evaluation, in place of episodes")
    parser.add_argument("--n-best-episodes", type=int, default=0, help="of the best agent at the end: bestscores.json")
    parser.add_argument("--checkpoint-frequency", type=int, help="steps between saved agents")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--load", help="directory of a saved agent, of this script or of PFRL")
    source.add_argument("--load-pretrained", nargs="?", const="", metavar="DIR", help="holds agents `best` and `final`")
    parser.add_argument("--pretrained-type", default="best", choices=["best", "final"], help="which of the two")
    parser.add_argument("--demo", action="store_true", help="evaluate only")
    parser.add_argument("--log-level", type=int, default=20, help="of Python's logging: 10 debug, 20 info, 30 warnings")
    return parser


def add_replay_arguments(parser):
    """The arguments of the agents that learn from a replay buffer."""
    parser.set_defaults(eval_epsilon=0.05)
    parser.add_argument("--gpu", type=int, help="CUDA device; the CPU without it")
    parser.add_argument("--batch-size", type=int, default=32, help="transitions of an update")
    parser.add_argument("--replay-start-size", type=int, default=50_000, help="steps before the first update")
    parser.add_argument("--update-interval", type=int, default=4, help="steps between updates")
    parser.add_argument("--target-update-interval", type=int, default=10_000, help="of the target network, in steps")


def add_watching_arguments(parser):
    """The arguments of `make_eval_env`."""
    parser.add_argument("--render", action="store_true", help="show evaluations")
    parser.add_argument("--monitor", action="store_true", help="record returns and videos of evaluations")


def parse(parser, **length):
    """Read the arguments; `length` is the default of --eval-n-runs or --eval-n-steps, 10 runs without it."""
    (default,) = length = length or {"eval_n_runs": 10}
    parser.set_defaults(**length)
    args = parser.parse_args()
    if args.load_pretrained == "":
        parser.error("--load-pretrained downloads nothing: name the directory that holds the agents `best` and `final`")
    if None not in (args.eval_n_runs, args.eval_n_steps):  # the other one was given
        setattr(args, default, None)
    return args


def start(args):
    """Seed everything and make the folder of the run; a demonstration has none unless it is recorded."""
    logging.basicConfig(level=args.log_level)
    torch.set_num_threads(1)
    utils.set_random_seed(args.seed)
    leaves_nothing = args.demo and not getattr(args, "monitor", False)
    return "" if leaves_nothing else experiments.prepare_output_dir(args, args.outdir)


def make_env(args, seed, test, render_mode=None, **wrapping):
    """A game for training, in which a life is an episode and rewards are signs, or (`test`) for evaluations."""
    env = atari_wrappers.make_atari(args.env, max_frames=args.max_frames, render_mode=render_mode)
    env = atari_wrappers.wrap_deepmind(env, episode_life=not test, clip_rewards=not test, **wrapping)
    if test:
        env = wrappers.RandomizeAction(env, args.eval_epsilon)
    env.seed(2**32 - 1 - seed if test else seed)
    return env


def make_eval_env(args, outdir, **wrapping):
    """A game for evaluations, shown or recorded on request."""
    mode = "human" if args.render else "rgb_array" if args.monitor else None
    env = make_env(args, args.seed, test=True, render_mode=mode, **wrapping)
    return wrappers.Monitor(env, outdir, mode="evaluation") if args.monitor else env


def make_batch_env(args, test):
    """Copies of a game, each in a process: only the newest frames come out of the processes, and are stacked here."""
    seeds = [args.seed * args.num_envs + i for i in range(args.num_envs)]
    makers = [partial(make_env, args, seed, test, frame_stack=False) for seed in seeds]
    return wrappers.VectorFrameStack(envs.MultiprocessVectorEnv(makers), 4)


def make_env_of_process(args, process_idx, test):
    """The game of one of `args.processes` processes."""
    return make_env(args, args.seed * args.processes + process_idx, test)


def run(args, agent, outdir, env, eval_env, train=experiments.train_agent_with_evaluation, **options):
    """Load the agent that the arguments name; then evaluate it (--demo), or train it and print where it is.

    `train` is the runner; `options` are further arguments of it.
    """
    if args.load_pretrained:
        agent.load(Path(args.load_pretrained) / args.pretrained_type)
    if args.load:
        agent.load(args.load)
    if args.demo:
        print_scores(experiments.eval_performance(eval_env, agent, args.eval_n_steps, args.eval_n_runs))
        return
    train(
        agent,
        env,
        eval_env=eval_env,
        steps=args.steps,
        outdir=outdir,
        eval_n_steps=args.eval_n_steps,
        eval_n_episodes=args.eval_n_runs,
        eval_interval=args.eval_interval,
        checkpoint_freq=args.checkpoint_frequency,
        progress=True,
        **options,
    )
    saved, best = Path(outdir) / f"{args.steps}_finish", Path(outdir) / "best"
    if args.n_best_episodes and best.exists():  # there has been an evaluation
        agent.load(best)
        scores = experiments.eval_performance(eval_env, agent, None, args.n_best_episodes)
        (Path(outdir) / "bestscores.json").write_text(json.dumps(scores, default=float))
        print_scores(scores)
    print(f"Results are in {outdir}; evaluate the agent with the same flags and --demo --load {saved}")


def run_async(agent, make_env, eval_env, **options):
    """Train in several processes, of which the first evaluates the agent in a game of its own."""
    experiments.train_agent_async(agent=agent, make_env=make_env, **options)


def print_scores(scores):
    """Print one line of what `eval_performance` returns."""
    print(f"n_runs: {scores['episodes']} mean: {scores['mean']} median: {scores['median']} stdev: {scores['stdev']}")
