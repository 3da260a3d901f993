"""Hooks that are called after each evaluation."""

from abc import ABC, abstractmethod
from typing import Any

from pfrl_like.errors import MissingDependencyError


class EvaluationHook(ABC):
    """Base class of evaluation hooks.

    Attributes:
        support_train_agent: True if the hook supports `train_agent_with_evaluation`.
        support_train_agent_batch: True if the hook supports `train_agent_batch_with_evaluation`.
        support_train_agent_async: True if the hook supports asynchronous training.
    """

    support_train_agent: bool = False
    support_train_agent_batch: bool = False
    support_train_agent_async: bool = False

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
