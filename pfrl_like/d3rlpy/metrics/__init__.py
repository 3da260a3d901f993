"""Evaluators: functions `evaluator(algo, dataset)` whose numbers `fit` adds to the metrics of each epoch."""

from pfrl_like.d3rlpy.metrics.evaluators import (
    AverageValueEstimationEvaluator,
    CompareContinuousActionDiffEvaluator,
    CompareDiscreteActionMatchEvaluator,
    ContinuousActionDiffEvaluator,
    DiscountedSumOfAdvantageEvaluator,
    DiscreteActionMatchEvaluator,
    EnvironmentEvaluator,
    EvaluatorProtocol,
    InitialStateValueEstimationEvaluator,
    SoftOPCEvaluator,
    TDErrorEvaluator,
)
from pfrl_like.d3rlpy.metrics.utility import evaluate_qlearning_with_environment, evaluate_transformer_with_environment

__all__ = [
    "AverageValueEstimationEvaluator", "CompareContinuousActionDiffEvaluator", "CompareDiscreteActionMatchEvaluator",
    "ContinuousActionDiffEvaluator", "DiscountedSumOfAdvantageEvaluator", "DiscreteActionMatchEvaluator",
    "EnvironmentEvaluator", "EvaluatorProtocol", "InitialStateValueEstimationEvaluator", "SoftOPCEvaluator",
    "TDErrorEvaluator", "evaluate_qlearning_with_environment", "evaluate_transformer_with_environment",
]  # fmt: skip
