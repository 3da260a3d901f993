"""Commands `train` and `fit` for one seed, in this process."""

import argparse
import os
import sys
from collections.abc import Mapping
from typing import Any

from pfrl_like.cli.options import agent_of, argument_error, command_text, make_of, options_of
from pfrl_like.cli.run_choice import run_directory
from pfrl_like.errors import PfrlLikeError
from pfrl_like.experiments.evaluation_hooks import EvaluationHook
from pfrl_like.experiments.hooks import StopAfter
from pfrl_like.runs.loop import Terminated
from pfrl_like.runs.run_files import RECORD, SCORES, column_of, record_of
from pfrl_like.zoo.agents import AGENTS
from pfrl_like.zoo.make import Made

#: Number of checkpoints of a run.
_N_CHECKPOINTS = 10


class PrintScore(EvaluationHook):
    """Prints a line for every evaluation."""

    support_train_agent = support_train_agent_batch = support_train_agent_async = True

    def __call__(
        self, env: Any, agent: Any, evaluator: Any, step: int, eval_stats: Any, agent_stats: Any, env_stats: Any
    ) -> None:
        """Print the step and the score."""
        print(f"step {step:,}: score {eval_stats['mean']:.6g}", flush=True)


def train(arguments: argparse.Namespace) -> int:
    """Train an agent. Return 0 if the run finishes, 1 if training fails, 130 after Ctrl-C.

    The last line of the output is the score, its step if that is not the last one, and the directory; see `seeds`.
    """
    options = options_of(arguments)
    if arguments.command == "fit":
        _check_offline(options["agent"])
    made, outdir = make_of(options), arguments.outdir
    try:
        with run_directory(arguments.outdir, options, made, new=arguments.new) as (outdir, is_finished):
            if is_finished:
                status = 0
                print("A run with these settings has finished before; --new trains again.")
            else:
                status = _train(made, outdir, arguments, options)
    except BrokenPipeError:
        raise
    except (PfrlLikeError, OSError) as error:  # not status 2: other seeds may still finish
        print(f"training failed in {outdir}: {command_text(error)}", file=sys.stderr)
        return 1
    if status == 0:
        print(f"score {_last_score(outdir)} in {outdir}", flush=True)
    return status


def _last_score(outdir: str) -> str:
    """Return the last score of a run, with its step if the run has made steps after it; "none" without a score."""
    steps, scores = column_of(outdir, SCORES, "mean")
    if not scores:
        return "none"
    is_older = steps[-1] < record_of(outdir).get("t", steps[-1])
    return f"{scores[-1]:.6g}" + (f" at step {steps[-1]:,.0f}" if is_older else "")


def _check_offline(agent: Any) -> None:
    """Raise `argparse.ArgumentError` if an agent does not learn from a dataset."""
    name, recipe = agent_of("--agent", agent)
    if recipe.runner != "offline":
        names = ", ".join(name for name, recipe in AGENTS.items() if recipe.runner == "offline")
        raise argument_error("--agent", f"{name} learns online, use the command train; offline agents are {names}")


def _train(made: Made, outdir: str, arguments: argparse.Namespace, options: Mapping[str, Any]) -> int:
    plan, quiet = made.plan, arguments.quiet
    if not quiet:
        how = "resuming" if os.path.exists(os.path.join(outdir, RECORD)) else "starting"
        print("\n".join([f"{plan.agent_name} in {plan.env_name}, seed {plan.seed}: {how} {outdir}", *plan.notes]))
        sys.stdout.flush()
    prints = not (quiet or sys.stderr.isatty())  # on a terminal, the progress bar has the score
    minutes = options["stop_after"]
    interval = max(plan.steps // _N_CHECKPOINTS, 1)
    try:
        made.train(
            outdir=outdir, resume=True, checkpoint_freq=interval, evaluation_hooks=[PrintScore()] if prints else [],
            successful_score=options["stop_at_score"], progress=False if quiet else None,
            hooks=[] if minutes is None else [StopAfter(minutes=minutes)],
        )  # fmt: skip
    except (KeyboardInterrupt, Terminated) as error:
        command = "the same command without --new" if arguments.new else "the same command"
        print(f"interrupted; {command} continues the run in {outdir}", file=sys.stderr)
        return error.signum + 128 if isinstance(error, Terminated) else 130
    record = record_of(outdir)
    if prints and str(record.get("outcome")).startswith("stopped"):
        print(f"step {record['t']:,}: {record['outcome']}")
    return 0
