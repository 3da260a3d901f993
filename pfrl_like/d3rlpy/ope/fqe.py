"""Fitted Q Evaluation: the value of a policy from recorded data."""

import dataclasses

from pfrl_like.d3rlpy.algos.configs import ValueConfig


@dataclasses.dataclass
class FQEConfig(ValueConfig, type_name="fqe"):
    """Config of Fitted Q Evaluation (arXiv:2007.09055).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update on a GPU.
        learning_rate: Learning rate.
        optim_factory: Factory of the optimiser.
        encoder_factory: Factory of the encoder.
        q_func_factory: Factory of the Q-functions.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        target_update_interval: Number of updates per copy of the parameters to the target networks.
    """

    batch_size: int = 100
    learning_rate: float = 1e-4
    target_update_interval: int = 100
