"""Shared by the trainers of this folder: command-line arguments, environments, and the call of the runner."""

import argparse
import logging
from functools import partial
from pathlib import Path

import gymnasium
import torch

from pfrl_like import envs, experiments, utils, wrappers


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, and the docstring as it is written."""


def make_parser(description):
    """The arguments of every trainer; `set_defaults` replaces their defaults by those of a paper."""
    parser = argparse.ArgumentParser(description=description, formatter_class=HelpFormatter)
    parser.add_argument("--env", default="Hopper-v5", help="an environment of gymnasium: vectors in, vectors out")
    parser.add_argument("--outdir", default="results", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--gpu", type=int, help="CUDA device; the CPU without it")
    parser.add_argument("--num-envs", type=int, default=1, help="copies of the environment, each in a process")
    parser.add_argument("--steps", type=int, default=10**6, help="environment steps of training")
    parser.add_argument("--eval-n-runs", type=int, default=10, help="episodes of each evaluation")
    parser.add_argument("--eval-interval", type=int, default=5_000, help="steps between evaluations")
    parser.add_argument("--checkpoint-frequency", type=int, help="steps between saved agents")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--load", help="directory of a saved agent, of this script or of PFRL")
    source.add_argument("--load-pretrained", nargs="?", const="", metavar="DIR", help="holds agents `best` and `final`")
    parser.add_argument("--pretrained-type", default="best", choices=["best", "final"], help="which of the two")
    parser.add_argument("--demo", action="store_true", help="evaluate only")
    parser.add_argument("--render", action="store_true", help="show evaluations")
    parser.add_argument("--monitor", action="store_true", help="record returns and videos of evaluations")
    parser.add_argument("--log-level", type=int, default=20, help="of Python's logging: 10 debug, 20 info, 30 warnings")
    return parser


def start(parser):
    """Read the arguments, seed everything, and make the folder of the run, unless a demonstration records nothing."""
    args = parser.parse_args()
    if args.load_pretrained == "":
        parser.error("--load-pretrained downloads nothing: name the directory that holds the agents `best` and `final`")
    logging.basicConfig(level=args.log_level)
    torch.set_num_threads(1)
    utils.set_random_seed(args.seed)
    leaves_nothing = args.demo and not args.monitor
    return args, "" if leaves_nothing else experiments.prepare_output_dir(args, args.outdir)


def make_env(args, seed, normalize_actions=False, render_mode=None):
    """An environment that observes float32; with `normalize_actions` its actions are in [-1, 1]."""
    env = gymnasium.make(args.env, render_mode=render_mode)
    if len(env.observation_space.shape or ()) != 1 or not isinstance(env.action_space, gymnasium.spaces.Box):
        raise SystemExit(
            f"{args.env} has the observations {env.observation_space} and the actions {env.action_space}, but this "
            "example needs vectors and continuous actions"
        )
    env = wrappers.CastObservationToFloat32(env)  # MuJoCo's are float64
    if normalize_actions:
        env = wrappers.NormalizeActionSpace(env)
    env.reset(seed=seed)
    return env


def make_envs(args, outdir, normalize_actions=False):
    """One environment or a vector of them to train in, and one for evaluations, shown or recorded on request."""
    make = partial(make_env, args, normalize_actions=normalize_actions)
    if args.num_envs == 1:
        env = make(args.seed)
    else:
        seeds = [args.seed * args.num_envs + i for i in range(args.num_envs)]
        env = envs.MultiprocessVectorEnv([partial(make, seed) for seed in seeds])
    env.action_space.seed(args.seed)  # of actions drawn before the agent has learnt
    mode = "human" if args.render else "rgb_array" if args.monitor else None
    eval_env = make(2**32 - 1 - args.seed, render_mode=mode)
    return env, wrappers.Monitor(eval_env, outdir, mode="evaluation") if args.monitor else eval_env


def run(args, agent, outdir, env, eval_env):
    """Load the agent that the arguments name; then evaluate it (--demo), or train it and print where it is."""
    if args.load_pretrained:
        agent.load(Path(args.load_pretrained) / args.pretrained_type)
    if args.load:
        agent.load(args.load)
    if args.demo:
        scores = experiments.eval_performance(eval_env, agent, None, args.eval_n_runs)
        print(f"n_runs: {args.eval_n_runs} mean: {scores['mean']} median: {scores['median']} stdev: {scores['stdev']}")
    else:
        one = args.num_envs == 1
        train = experiments.train_agent_with_evaluation if one else experiments.train_agent_batch_with_evaluation
        train(
            agent,
            env,
            eval_env=eval_env,
            steps=args.steps,
            outdir=outdir,
            eval_n_steps=None,
            eval_n_episodes=args.eval_n_runs,
            eval_interval=args.eval_interval,
            checkpoint_freq=args.checkpoint_frequency,
            progress=True,
        )
        saved = Path(outdir) / f"{args.steps}_finish"
        print(f"Results are in {outdir}; evaluate the agent with --demo --load {saved}")
    env.close()
    eval_env.close()
