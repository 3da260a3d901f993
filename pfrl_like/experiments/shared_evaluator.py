"""`SharedEvaluator`: evaluation by several processes, with one table and one best score."""

import multiprocessing
from dataclasses import dataclass
from typing import Any

import numpy as np

from pfrl_like.experiments.evaluator import Evaluator


@dataclass(frozen=True)
class SharedScores:
    """Progress of the evaluations, in shared memory.

    Attributes:
        due: A `multiprocessing.Value`: step of the latest evaluation that a process has taken over.
        best: A raw `multiprocessing.Value`: best mean return so far.
        recording: Lock that a process holds while it records an evaluation.
    """

    due: Any
    best: Any
    recording: Any


def shared_scores() -> SharedScores:
    """Return the progress of evaluations that have not begun."""
    spawn = multiprocessing.get_context("spawn")  # locks of this context work with every start method
    return SharedScores(spawn.Value("q", 0), spawn.RawValue("d", float(np.finfo(np.float32).min)), spawn.Lock())


class SharedEvaluator(Evaluator):
    """Evaluator of one of several processes. The process that is first at an evaluation evaluates.

    Args:
        scores: Progress of the evaluations, which all processes share.
        agent: Agent to evaluate.
        env: Environment for evaluation.
        **options: Further arguments of `Evaluator`. The files of an earlier run must already have been moved.
    """

    def __init__(self, scores: SharedScores, agent: Any, env: Any, **options: Any) -> None:
        self.scores = scores
        with scores.recording:  # the first process writes the header of the table
            super().__init__(agent, env, moves_files=False, **options)
            scores.best.value = max(scores.best.value, self.max_score)
            with scores.due.get_lock():
                scores.due.value = max(scores.due.value, self.prev_eval_t)

    def evaluate_if_necessary(self, t: int, episodes: int) -> float | None:
        """Evaluate if `eval_interval` steps have passed since the last evaluation in any process.

        Args:
            t: Number of training steps so far.
            episodes: Number of training episodes that have ended so far.

        Returns:
            The mean return, or None if no evaluation is due.
        """
        with self.scores.due.get_lock():
            if t < self.scores.due.value + self.eval_interval:
                return None
            self.scores.due.value += self.eval_interval  # as in PFRL, a late evaluation is not skipped
        return self.evaluate_and_update_max_score(t, episodes)

    def _record(self, t: int, episodes: int, stats: dict[str, Any]) -> None:
        with self.scores.recording:
            self.max_score = self.scores.best.value
            super()._record(t, episodes, stats)
            self.scores.best.value = self.max_score
