"""Runners for training and evaluation, and run directories."""

from pfrl_like.debug.crash_replay import replay_crash
from pfrl_like.experiments.cluster.runner import train_agent_distributed
from pfrl_like.experiments.collect_demonstrations import collect_demonstrations
from pfrl_like.experiments.epoch_runner import EpochRunner
from pfrl_like.experiments.evaluation_hooks import EvaluationHook, OptunaPrunerHook, StopWithoutImprovement
from pfrl_like.experiments.evaluator import Evaluator, eval_performance
from pfrl_like.experiments.hooks import LinearInterpolationHook, SaveEvery, ScheduleHook, StepHook, StopAfter
from pfrl_like.experiments.prepare_output_dir import (
    generate_exp_id,
    is_under_git_control,
    new_run_directory,
    prepare_output_dir,
    run_directory_name,
)
from pfrl_like.experiments.record_video import RecordVideoEvery, record_video
from pfrl_like.experiments.train_agent import train_agent, train_agent_with_evaluation
from pfrl_like.experiments.train_agent_async import train_agent_actor_learner, train_agent_async
from pfrl_like.experiments.train_agent_batch import train_agent_batch, train_agent_batch_with_evaluation
from pfrl_like.experiments.train_agent_offline import train_agent_offline

__all__ = [
    "EpochRunner", "EvaluationHook", "Evaluator", "LinearInterpolationHook", "OptunaPrunerHook", "RecordVideoEvery",
    "SaveEvery", "ScheduleHook", "StepHook", "StopAfter", "StopWithoutImprovement", "collect_demonstrations",
    "eval_performance", "generate_exp_id", "is_under_git_control", "new_run_directory", "prepare_output_dir",
    "record_video", "replay_crash", "run_directory_name", "train_agent", "train_agent_actor_learner",
    "train_agent_async", "train_agent_batch", "train_agent_batch_with_evaluation", "train_agent_distributed",
    "train_agent_offline", "train_agent_with_evaluation",
]  # fmt: skip
