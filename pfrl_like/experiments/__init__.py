"""Running agents: training, evaluation, and the directories in which runs are recorded."""

from pfrl_like.experiments.collect_demonstrations import collect_demonstrations as collect_demonstrations
from pfrl_like.experiments.epoch_runner import EpochRunner as EpochRunner
from pfrl_like.experiments.evaluation_hooks import EvaluationHook as EvaluationHook
from pfrl_like.experiments.evaluation_hooks import OptunaPrunerHook as OptunaPrunerHook
from pfrl_like.experiments.evaluator import Evaluator as Evaluator
from pfrl_like.experiments.evaluator import eval_performance as eval_performance
from pfrl_like.experiments.hooks import LinearInterpolationHook as LinearInterpolationHook
from pfrl_like.experiments.hooks import StepHook as StepHook
from pfrl_like.experiments.prepare_output_dir import generate_exp_id as generate_exp_id
from pfrl_like.experiments.prepare_output_dir import is_under_git_control as is_under_git_control
from pfrl_like.experiments.prepare_output_dir import prepare_output_dir as prepare_output_dir
from pfrl_like.experiments.train_agent import train_agent as train_agent
from pfrl_like.experiments.train_agent import train_agent_with_evaluation as train_agent_with_evaluation
from pfrl_like.experiments.train_agent_actor_learner import train_agent_actor_learner as train_agent_actor_learner
from pfrl_like.experiments.train_agent_async import train_agent_async as train_agent_async
from pfrl_like.experiments.train_agent_batch import train_agent_batch as train_agent_batch
from pfrl_like.experiments.train_agent_batch import (
    train_agent_batch_with_evaluation as train_agent_batch_with_evaluation,
)
from pfrl_like.experiments.train_agent_offline import train_agent_offline as train_agent_offline
