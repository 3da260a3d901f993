"""Hooks that are called after each evaluation."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from pfrl_like.errors import MissingDependencyError
from pfrl_like.utils.checks import check_counts, takes_integral_floats


class EvaluationHook(ABC):
    """Base class of evaluation hooks. Runners that evaluate take them in `evaluation_hooks`.

    Attributes:
        support_train_agent: True if the hook supports `train_agent_with_evaluation`.
        support_train_agent_batch: True if the hook supports `train_agent_batch_with_evaluation`.
        support_train_agent_async: True if the hook supports asynchronous training.
    """

    support_train_agent: bool = False
    support_train_agent_batch: bool = False
    support_train_agent_async: bool = False

    @property
    def stop_reason(self) -> str:
        """Reason to end training. If the text is not empty, training ends after this evaluation."""
        return ""

    @abstractmethod
    def __call__(
        self, env: Any, agent: Any, evaluator: Any, step: int, eval_stats: Any, agent_stats: Any, env_stats: Any
    ) -> None:
        """Run after an evaluation.

        Args:
            env: Evaluation environment.
            agent: The agent.
            evaluator: The evaluator. Its `max_score` does not yet include this evaluation.
            step: Number of training steps so far.
            eval_stats: Dict of the evaluation's statistics ("mean", "median", ...).
            agent_stats: Statistics of the agent as (name, value) pairs.
            env_stats: Statistics of the environment as (name, value) pairs.
        """


class OptunaPrunerHook(EvaluationHook):
    """Reports the mean return of every evaluation to an Optuna trial. If the trial is pruned, the run ends.

    Runners that evaluate take it in `evaluation_hooks`, except `train_agent_async`::

        train_agent_with_evaluation(..., evaluation_hooks=[OptunaPrunerHook(trial)])

    Args:
        trial: `optuna.trial.Trial`.

    Raises:
        MissingDependencyError: If Optuna is not installed.
    """

    support_train_agent = True
    support_train_agent_batch = True

    def __init__(self, trial: Any) -> None:
        try:
            import optuna
        except ImportError as error:
            raise MissingDependencyError("optuna", "OptunaPrunerHook") from error
        self.trial, self._pruned = trial, optuna.TrialPruned

    def __call__(
        self, env: Any, agent: Any, evaluator: Any, step: int, eval_stats: Any, agent_stats: Any, env_stats: Any
    ) -> None:
        """Report the mean return. Raise `optuna.TrialPruned` if the trial should be pruned."""
        self.trial.report(eval_stats["mean"], step)
        if self.trial.should_prune():
            raise self._pruned()


class StopWithoutImprovement(EvaluationHook):
    """Ends training when the mean return has not reached a new maximum in several evaluations.

    Runners that evaluate take it in `evaluation_hooks`, `Made.train` too. To end training at a score, no hook is
    needed: these runners have the argument `successful_score`::

        train_agent_with_evaluation(..., evaluation_hooks=[StopWithoutImprovement(patience=10)], successful_score=475)

    A resumed run continues to count, except after `train_agent_async`, which restores no hooks.

    Args:
        patience: Number of consecutive evaluations without a new maximum after which training ends.

    Attributes:
        best: Maximum of the mean returns so far.
        n_since_best: Number of evaluations since the maximum.

    Raises:
        ValueError: If `patience` is less than 1.
        TypeError: If `patience` is not an integer.
    """

    support_train_agent = support_train_agent_batch = support_train_agent_async = True

    @takes_integral_floats
    def __init__(self, patience: int) -> None:
        check_counts(patience=patience)
        self.patience, self.best, self.n_since_best = patience, -math.inf, 0

    def __call__(
        self, env: Any, agent: Any, evaluator: Any, step: int, eval_stats: Any, agent_stats: Any, env_stats: Any
    ) -> None:
        """Compare the mean return with the maximum so far."""
        mean = float(eval_stats["mean"])
        self.n_since_best = 0 if mean > self.best else self.n_since_best + 1
        self.best = max(self.best, mean)

    @property
    def stop_reason(self) -> str:
        """Reason to end training; empty while `n_since_best` is less than `patience`."""
        if self.n_since_best < self.patience:
            return ""
        return f"the mean return has not exceeded {self.best:.1f} in {self.n_since_best} evaluations"

    def state_dict(self) -> dict[str, Any]:
        """Return the maximum and the number of evaluations since."""
        return {"best": self.best, "n_since_best": self.n_since_best}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        self.best, self.n_since_best = float(state["best"]), int(state["n_since_best"])
