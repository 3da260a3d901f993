"""What the trainers of this folder share: flags, frames, games, and the way through a demonstration or a training."""

import argparse
import json
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from pfrl_like import experiments, explorers, replay_buffers, utils, wrappers
from pfrl_like.wrappers import atari_wrappers

LOAD_HELP = "directory of a saved agent, of this script or of PFRL (model.pt, target_model.pt, optimizer.pt)"
PRETRAINED_HELP = "directory that holds the agents `best` and `final`; nothing is downloaded"


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """The flags of every trainer; `set_defaults` gives those of a paper."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--env", default="BreakoutNoFrameskip-v4", help="a game, as PongNoFrameskip-v4 or ALE/Pong-v5")
    parser.add_argument("--outdir", default="results", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--gpu", type=int, default=None, help="CUDA device; the CPU without it")
    parser.add_argument("--steps", type=int, default=10**7, help="steps of training, of four frames each")
    parser.add_argument("--max-frames", type=int, default=30 * 60 * 60, help="frames after which a game is cut off")
    parser.add_argument("--lr", type=float, default=2.5e-4, help="learning rate")
    parser.add_argument("--batch-size", type=int, default=32, help="transitions of an update")
    parser.add_argument("--replay-start-size", type=int, default=50_000, help="steps before the first update")
    parser.add_argument("--update-interval", type=int, default=4, help="steps between updates")
    parser.add_argument("--target-update-interval", type=int, default=10_000, help="steps between the target network's")
    parser.add_argument("--eval-epsilon", type=float, default=0.05, help="share of random actions in evaluations")
    parser.add_argument("--eval-interval", type=int, default=10**5, help="steps between evaluations")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--eval-n-runs", type=int, default=None, help="episodes of each evaluation")
    length.add_argument("--eval-n-steps", type=int, default=None, help="steps of each evaluation, in place of episodes")
    parser.add_argument("--n-best-episodes", type=int, default=0, help="the best agent's at the end: bestscores.json")
    parser.add_argument("--checkpoint-frequency", type=int, default=None, help="steps between saved agents")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--load", default=None, help=LOAD_HELP)
    source.add_argument("--load-pretrained", nargs="?", const="", default=None, metavar="DIR", help=PRETRAINED_HELP)
    parser.add_argument("--pretrained-type", default="best", choices=["best", "final"], help="which of the two")
    parser.add_argument("--demo", action="store_true", help="evaluate only")
    parser.add_argument("--log-level", type=int, default=20, help="of Python's logging: 10 debug, 20 info, 30 warnings")
    return parser


def add_exploration_flags(parser: argparse.ArgumentParser, final_epsilon: float) -> None:
    """Those of epsilon-greedy, for agents that do not explore by noise alone."""
    parser.add_argument("--final-exploration-frames", type=int, default=10**6, help="steps until the last epsilon")
    parser.add_argument("--final-epsilon", type=float, default=final_epsilon, help="share of random actions at last")


def add_replay_flags(parser: argparse.ArgumentParser) -> None:
    """Those of `make_replay_buffer`."""
    parser.add_argument("--num-step-return", type=int, default=1, help="steps of the return that is learnt from")
    parser.add_argument("--prioritized", action="store_true", help="draw transitions by their TD errors")


def add_watching_flags(parser: argparse.ArgumentParser) -> None:
    """Those of `make_watched_env`."""
    parser.add_argument("--render", action="store_true", help="show evaluations")
    parser.add_argument("--monitor", action="store_true", help="record returns and videos of evaluations")


def parse(parser: argparse.ArgumentParser, **length: int) -> argparse.Namespace:
    """The arguments; `length` is that of an evaluation (`eval_n_runs` or `eval_n_steps`) where they give none."""
    (default,) = length = length or {"eval_n_runs": 10}
    parser.set_defaults(**length)
    args = parser.parse_args()
    if args.load_pretrained == "":
        parser.error("--load-pretrained downloads nothing: name the directory that holds the agents `best` and `final`")
    if None not in (args.eval_n_runs, args.eval_n_steps):  # the other one was given
        setattr(args, default, None)
    return args


def phi(frames: np.ndarray) -> np.ndarray:
    """Pixels from 0 to 1; the replay buffer keeps them as bytes."""
    return np.asarray(frames, dtype=np.float32) / 255


def make_env(args: argparse.Namespace, seed: int, test: bool, render_mode: str | None = None, **wrapping: Any) -> Any:
    """A game for training, in which a life is an episode and rewards are signs, or for evaluations."""
    env = atari_wrappers.make_atari(args.env, max_frames=args.max_frames, render_mode=render_mode)
    env = atari_wrappers.wrap_deepmind(env, episode_life=not test, clip_rewards=not test, **wrapping)
    if test:
        env = wrappers.RandomizeAction(env, args.eval_epsilon)
    env.seed(2**32 - 1 - seed if test else seed)
    return env


def make_watched_env(args: argparse.Namespace, outdir: str, **wrapping: Any) -> gymnasium.Env:
    """A game for evaluations, shown or recorded on request."""
    mode = "human" if args.render else "rgb_array" if args.monitor else None
    env = make_env(args, args.seed, test=True, render_mode=mode, **wrapping)
    return wrappers.Monitor(env, outdir, mode="evaluation") if args.monitor else env


def make_replay_buffer(args: argparse.Namespace) -> replay_buffers.ReplayBuffer:
    """A million transitions, drawn evenly or by their TD errors."""
    if not args.prioritized:
        return replay_buffers.ReplayBuffer(10**6, num_steps=args.num_step_return)
    updates = max(1, args.steps // args.update_interval)  # the last of which corrects the draws in full
    return replay_buffers.PrioritizedReplayBuffer(10**6, 0.6, 0.4, updates, num_steps=args.num_step_return)


def make_explorer(args: argparse.Namespace, n_actions: int) -> explorers.LinearDecayEpsilonGreedy:
    """Random actions at first, then fewer and fewer."""
    random_action = partial(draw, n_actions)
    return explorers.LinearDecayEpsilonGreedy(1.0, args.final_epsilon, args.final_exploration_frames, random_action)


def draw(n_actions: int) -> int:
    """An action, from NumPy's global stream of the process that calls."""
    return np.random.randint(n_actions)


def agent_options(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments that these agents share: when and from how much they learn, what they see, on which device."""
    return {
        "gamma": 0.99,
        "gpu": args.gpu,
        "replay_start_size": args.replay_start_size,
        "minibatch_size": args.batch_size,
        "update_interval": args.update_interval,
        "target_update_interval": args.target_update_interval,
        "phi": phi,
    }


def begin(args: argparse.Namespace) -> str:
    """Seed everything and make the folder of the run; a demonstration has none unless it is recorded."""
    logging.basicConfig(level=args.log_level)
    torch.set_num_threads(1)
    utils.set_random_seed(args.seed)
    leaves_nothing = args.demo and not getattr(args, "monitor", False)
    return "" if leaves_nothing else experiments.prepare_output_dir(args, args.outdir)


def run(
    args: argparse.Namespace,
    agent: Any,
    outdir: str,
    env: Any,
    eval_env: Any,
    train: Callable[..., Any] = experiments.train_agent_with_evaluation,
) -> None:
    """Load the agent that the flags name, then demonstrate it, or train it and say where it is."""
    if args.load_pretrained:
        agent.load(Path(args.load_pretrained) / args.pretrained_type)
    if args.load:
        agent.load(args.load)
    if args.demo:
        show(experiments.eval_performance(eval_env, agent, args.eval_n_steps, args.eval_n_runs))
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
    )
    saved, best = Path(outdir) / f"{args.steps}_finish", Path(outdir) / "best"
    if args.n_best_episodes and best.exists():  # there has been an evaluation
        agent.load(best)
        scores = experiments.eval_performance(eval_env, agent, None, args.n_best_episodes)
        (Path(outdir) / "bestscores.json").write_text(json.dumps(scores, default=float))  # as PFRL's trainers
        show(scores)
    print(f"Results are in {outdir}; evaluate the agent with the same flags and --demo --load {saved}")


def show(scores: dict[str, float]) -> None:
    """One line of what `eval_performance` returns."""
    print(f"n_runs: {scores['episodes']} mean: {scores['mean']} median: {scores['median']} stdev: {scores['stdev']}")
