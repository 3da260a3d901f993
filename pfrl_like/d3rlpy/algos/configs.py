"""Configs of all algorithms: dataclasses whose fields are d3rlpy 2's, with its defaults."""

import dataclasses

from pfrl_like.d3rlpy.base import LearnableConfig
from pfrl_like.d3rlpy.constants import PositionEncodingType
from pfrl_like.d3rlpy.models import DefaultEncoderFactory, EncoderFactory, MeanQFunctionFactory, QFunctionFactory
from pfrl_like.d3rlpy.optimizers import AdamFactory, OptimizerFactory


@dataclasses.dataclass
class ValueConfig(LearnableConfig):
    """Base class of configs of algorithms that learn action values only.

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        learning_rate: Learning rate.
        optim_factory: Factory of the optimiser.
        encoder_factory: Factory of the encoder.
        q_func_factory: Factory of the Q-functions.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
    """

    batch_size: int = 32
    learning_rate: float = 6.25e-5
    optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    q_func_factory: QFunctionFactory = dataclasses.field(default_factory=MeanQFunctionFactory)
    n_critics: int = 1


@dataclasses.dataclass
class ActorCriticConfig(LearnableConfig):
    """Base class of configs of algorithms with a policy and critics.

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
    """

    actor_learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    actor_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    critic_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    actor_encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    critic_encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)


@dataclasses.dataclass
class ImitatorConfig(LearnableConfig):
    """Base class of configs of algorithms that also model the recorded actions.

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        imitator_learning_rate: Learning rate of the model of recorded actions.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        imitator_optim_factory: Factory of the optimiser of the model of recorded actions.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
        imitator_encoder_factory: Factory of the encoders of the model of recorded actions.
        q_func_factory: Factory of the Q-functions.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
    """

    batch_size: int = 100
    actor_learning_rate: float = 1e-3
    critic_learning_rate: float = 1e-3
    imitator_learning_rate: float = 1e-3
    actor_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    critic_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    imitator_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    actor_encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    critic_encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    imitator_encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    q_func_factory: QFunctionFactory = dataclasses.field(default_factory=MeanQFunctionFactory)
    tau: float = 0.005
    n_critics: int = 2


@dataclasses.dataclass
class TransformerConfig(LearnableConfig):
    """Base class of configs of transformers.

    Args:
        batch_size: Number of sequences per minibatch.
        gamma: Discount factor per step. It has no effect.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        context_size: Maximum number of steps that the transformer sees.
        max_timestep: Maximum number of steps of an episode.
        learning_rate: Learning rate.
        encoder_factory: Factory of the encoder.
        optim_factory: Factory of the optimiser.
        num_heads: Number of attention heads of a layer.
        num_layers: Number of layers.
        attn_dropout: Probability that an attention weight is set to 0 in training.
        resid_dropout: Probability that an output of a layer is set to 0 in training.
        embed_dropout: Probability that an embedded token's entry is set to 0 in training.
        activation_type: Activation of the layers: "relu", "gelu", "tanh", "swish" or "none".
    """

    context_size: int = 20
    max_timestep: int = 1000
    learning_rate: float = 1e-4
    encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    num_heads: int = 1
    num_layers: int = 3
    attn_dropout: float = 0.1
    resid_dropout: float = 0.1
    embed_dropout: float = 0.1
    activation_type: str = "relu"


@dataclasses.dataclass
class NFQConfig(ValueConfig, type_name="nfq"):
    """Config of Neural Fitted Q Iteration (Riedmiller 2005).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Must be None, because actions are discrete.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        learning_rate: Learning rate.
        optim_factory: Factory of the optimiser.
        encoder_factory: Factory of the encoder.
        q_func_factory: Factory of the Q-functions.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
    """


@dataclasses.dataclass
class DQNConfig(ValueConfig, type_name="dqn"):
    """Config of Deep Q-Network (Mnih et al. 2015, doi:10.1038/nature14236).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Must be None, because actions are discrete.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        learning_rate: Learning rate.
        optim_factory: Factory of the optimiser.
        encoder_factory: Factory of the encoder.
        q_func_factory: Factory of the Q-functions.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        target_update_interval: Number of updates per copy of the parameters to the target networks.
    """

    target_update_interval: int = 8000


@dataclasses.dataclass
class DoubleDQNConfig(DQNConfig, type_name="double_dqn"):
    """Config of Double DQN (arXiv:1509.06461).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Must be None, because actions are discrete.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        learning_rate: Learning rate.
        optim_factory: Factory of the optimiser.
        encoder_factory: Factory of the encoder.
        q_func_factory: Factory of the Q-functions.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        target_update_interval: Number of updates per copy of the parameters to the target networks.
    """


@dataclasses.dataclass
class DiscreteBCQConfig(ValueConfig, type_name="discrete_bcq"):
    """Config of Batch-Constrained deep Q-learning for discrete actions (arXiv:1910.01708).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Must be None, because actions are discrete.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        learning_rate: Learning rate.
        optim_factory: Factory of the optimiser.
        encoder_factory: Factory of the encoder.
        q_func_factory: Factory of the Q-functions.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        action_flexibility: Minimum probability of an action, relative to the most probable action. Others are excluded.
        beta: Weight of the squared log-probabilities in the imitator's loss.
        target_update_interval: Number of updates per copy of the parameters to the target networks.
        share_encoder: True if the Q-functions and the imitator share one encoder.
    """

    action_flexibility: float = 0.3
    beta: float = 0.5
    target_update_interval: int = 8000
    share_encoder: bool = True


@dataclasses.dataclass
class DiscreteCQLConfig(DQNConfig, type_name="discrete_cql"):
    """Config of Conservative Q-Learning for discrete actions (arXiv:2006.04779).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Must be None, because actions are discrete.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        learning_rate: Learning rate.
        optim_factory: Factory of the optimiser.
        encoder_factory: Factory of the encoder.
        q_func_factory: Factory of the Q-functions.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        target_update_interval: Number of updates per copy of the parameters to the target networks.
        alpha: Weight of the conservative term.
    """

    alpha: float = 1.0


@dataclasses.dataclass
class DDPGConfig(ActorCriticConfig, type_name="ddpg"):
    """Config of Deep Deterministic Policy Gradient (arXiv:1509.02971).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
        q_func_factory: Factory of the Q-functions.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
    """

    q_func_factory: QFunctionFactory = dataclasses.field(default_factory=MeanQFunctionFactory)
    tau: float = 0.005
    n_critics: int = 1


@dataclasses.dataclass
class TD3Config(DDPGConfig, type_name="td3"):
    """Config of Twin Delayed DDPG (arXiv:1802.09477).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
        q_func_factory: Factory of the Q-functions.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        target_smoothing_sigma: Standard deviation of the noise that is added to target actions.
        target_smoothing_clip: Maximum absolute value of this noise.
        update_actor_interval: Number of critic updates per update of the policy.
    """

    n_critics: int = 2
    target_smoothing_sigma: float = 0.2
    target_smoothing_clip: float = 0.5
    update_actor_interval: int = 2


@dataclasses.dataclass
class TD3PlusBCConfig(DDPGConfig, type_name="td3_plus_bc"):
    """Config of TD3 with behaviour cloning (arXiv:2106.06860).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
        q_func_factory: Factory of the Q-functions.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        target_smoothing_sigma: Standard deviation of the noise that is added to target actions.
        target_smoothing_clip: Maximum absolute value of this noise.
        alpha: Weight of the critics' term in the policy's loss, before normalisation by their mean absolute value.
        update_actor_interval: Number of critic updates per update of the policy.
    """

    n_critics: int = 2
    target_smoothing_sigma: float = 0.2
    target_smoothing_clip: float = 0.5
    alpha: float = 2.5
    update_actor_interval: int = 2


@dataclasses.dataclass
class ReBRACConfig(DDPGConfig, type_name="rebrac"):
    """Config of Revisited Behaviour-Regularised Actor-Critic (arXiv:2305.09836).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
        q_func_factory: Factory of the Q-functions.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        target_smoothing_sigma: Standard deviation of the noise that is added to target actions.
        target_smoothing_clip: Maximum absolute value of this noise.
        actor_beta: Weight of the imitation term in the policy's loss.
        critic_beta: Weight of the imitation term in the targets.
        update_actor_interval: Number of critic updates per update of the policy.
    """

    batch_size: int = 1024
    actor_learning_rate: float = 1e-3
    critic_learning_rate: float = 1e-3
    n_critics: int = 2
    target_smoothing_sigma: float = 0.2
    target_smoothing_clip: float = 0.5
    actor_beta: float = 1e-3
    critic_beta: float = 0.01
    update_actor_interval: int = 2


@dataclasses.dataclass
class SACConfig(LearnableConfig, type_name="sac"):
    """Config of Soft Actor-Critic with a learnt temperature (arXiv:1812.05905).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        temp_learning_rate: Learning rate of the temperature.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        temp_optim_factory: Factory of the temperature's optimiser.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
        q_func_factory: Factory of the Q-functions.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        initial_temperature: Initial temperature.
    """

    actor_learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    temp_learning_rate: float = 3e-4
    actor_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    critic_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    temp_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    actor_encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    critic_encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    q_func_factory: QFunctionFactory = dataclasses.field(default_factory=MeanQFunctionFactory)
    tau: float = 0.005
    n_critics: int = 2
    initial_temperature: float = 1.0


@dataclasses.dataclass
class DiscreteSACConfig(LearnableConfig, type_name="discrete_sac"):
    """Config of Soft Actor-Critic for discrete actions (arXiv:1910.07207).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Must be None, because actions are discrete.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        temp_learning_rate: Learning rate of the temperature.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        temp_optim_factory: Factory of the temperature's optimiser.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
        q_func_factory: Factory of the Q-functions.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        initial_temperature: Initial temperature.
        target_update_interval: Number of updates per copy of the parameters to the target networks.
    """

    batch_size: int = 64
    actor_learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    temp_learning_rate: float = 3e-4
    actor_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    critic_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    temp_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    actor_encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    critic_encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    q_func_factory: QFunctionFactory = dataclasses.field(default_factory=MeanQFunctionFactory)
    n_critics: int = 2
    initial_temperature: float = 1.0
    target_update_interval: int = 8000


@dataclasses.dataclass
class CQLConfig(LearnableConfig, type_name="cql"):
    """Config of Conservative Q-Learning (arXiv:2006.04779).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        temp_learning_rate: Learning rate of the temperature.
        alpha_learning_rate: Learning rate of the Lagrange multiplier alpha.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        temp_optim_factory: Factory of the temperature's optimiser.
        alpha_optim_factory: Factory of alpha's optimiser.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
        q_func_factory: Factory of the Q-functions.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        initial_temperature: Initial temperature.
        initial_alpha: Initial Lagrange multiplier alpha.
        alpha_threshold: Threshold of the constraint whose Lagrange multiplier is alpha.
        conservative_weight: Weight of the conservative gap: values of sampled actions minus values of recorded actions.
        n_action_samples: Number of sampled actions per state.
        soft_q_backup: True if targets include the entropy of the policy in the next state.
        max_q_backup: True if targets use the maximum value over sampled actions.
    """

    actor_learning_rate: float = 1e-4
    critic_learning_rate: float = 3e-4
    temp_learning_rate: float = 1e-4
    alpha_learning_rate: float = 1e-4
    actor_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    critic_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    temp_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    alpha_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    actor_encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    critic_encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    q_func_factory: QFunctionFactory = dataclasses.field(default_factory=MeanQFunctionFactory)
    tau: float = 0.005
    n_critics: int = 2
    initial_temperature: float = 1.0
    initial_alpha: float = 1.0
    alpha_threshold: float = 10.0
    conservative_weight: float = 5.0
    n_action_samples: int = 10
    soft_q_backup: bool = False
    max_q_backup: bool = False


@dataclasses.dataclass
class CalQLConfig(CQLConfig, type_name="cal_ql"):
    """Config of Calibrated Q-Learning (arXiv:2303.05479).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        temp_learning_rate: Learning rate of the temperature.
        alpha_learning_rate: Learning rate of the Lagrange multiplier alpha.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        temp_optim_factory: Factory of the temperature's optimiser.
        alpha_optim_factory: Factory of alpha's optimiser.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
        q_func_factory: Factory of the Q-functions.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        initial_temperature: Initial temperature.
        initial_alpha: Initial Lagrange multiplier alpha.
        alpha_threshold: Threshold of the constraint whose Lagrange multiplier is alpha.
        conservative_weight: Weight of the conservative gap: values of sampled actions minus values of recorded actions.
        n_action_samples: Number of sampled actions per state.
        soft_q_backup: True if targets include the entropy of the policy in the next state.
        max_q_backup: True if targets use the maximum value over sampled actions.
    """


@dataclasses.dataclass
class AWACConfig(ActorCriticConfig, type_name="awac"):
    """Config of Advantage-Weighted Actor-Critic (arXiv:2006.09359).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
        q_func_factory: Factory of the Q-functions.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        lam: Temperature of the weights. A smaller temperature increases the effect of the advantage.
        n_action_samples: Number of sampled actions per state.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
    """

    batch_size: int = 1024
    q_func_factory: QFunctionFactory = dataclasses.field(default_factory=MeanQFunctionFactory)
    tau: float = 0.005
    lam: float = 1.0
    n_action_samples: int = 1
    n_critics: int = 2


@dataclasses.dataclass
class CRRConfig(ActorCriticConfig, type_name="crr"):
    """Config of Critic Regularized Regression (arXiv:2006.15134).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
        q_func_factory: Factory of the Q-functions.
        beta: Temperature of the weights exp(A / beta).
        n_action_samples: Number of sampled actions per state.
        advantage_type: Value that is subtracted in the advantage: "mean" or "max" over sampled actions.
        weight_type: Weight of a recorded action: "exp" for exp(A / beta), "binary" for A > 0.
        max_weight: Maximum weight of a recorded action.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        target_update_type: "hard" to copy the parameters every `target_update_interval` updates, "soft" to move them by
            `tau`.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        target_update_interval: Number of updates per copy of the parameters to the target networks.
        update_actor_interval: Ignored, as in d3rlpy: the policy is updated with the critics.
    """

    batch_size: int = 100
    q_func_factory: QFunctionFactory = dataclasses.field(default_factory=MeanQFunctionFactory)
    beta: float = 1.0
    n_action_samples: int = 4
    advantage_type: str = "mean"
    weight_type: str = "exp"
    max_weight: float = 20.0
    n_critics: int = 1
    target_update_type: str = "hard"
    tau: float = 0.005
    target_update_interval: int = 100
    update_actor_interval: int = 1


@dataclasses.dataclass
class IQLConfig(ActorCriticConfig, type_name="iql"):
    """Config of Implicit Q-Learning (arXiv:2110.06169).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
        value_encoder_factory: Factory of the encoder of the state value.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        expectile: Expectile of the state value.
        weight_temp: Inverse temperature of the weights of recorded actions.
        max_weight: Maximum weight of a recorded action.
    """

    value_encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    tau: float = 0.005
    n_critics: int = 2
    expectile: float = 0.7
    weight_temp: float = 3.0
    max_weight: float = 100.0


@dataclasses.dataclass
class BCQConfig(ImitatorConfig, type_name="bcq"):
    """Config of Batch-Constrained deep Q-learning (arXiv:1812.02900).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        imitator_learning_rate: Learning rate of the model of recorded actions.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        imitator_optim_factory: Factory of the optimiser of the model of recorded actions.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
        imitator_encoder_factory: Factory of the encoders of the model of recorded actions.
        q_func_factory: Factory of the Q-functions.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        update_actor_interval: Ignored, as in d3rlpy: the policy is updated with the critics.
        lam: Weight of the minimum over the critics in targets. The maximum has the weight 1 - lam.
        n_action_samples: Number of sampled actions from which the policy selects the action with the highest value.
        action_flexibility: Maximum absolute change of a sampled action.
        rl_start_step: Number of updates of the model of recorded actions before the policy and the critics learn.
        beta: Weight of the divergence in the loss of the model of recorded actions.
    """

    update_actor_interval: int = 1
    lam: float = 0.75
    n_action_samples: int = 100
    action_flexibility: float = 0.05
    rl_start_step: int = 0
    beta: float = 0.5


@dataclasses.dataclass
class PLASConfig(ImitatorConfig, type_name="plas"):
    """Config of Policy in the Latent Action Space (arXiv:2011.07213).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        imitator_learning_rate: Learning rate of the model of recorded actions.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        imitator_optim_factory: Ignored, as in d3rlpy: `critic_optim_factory` also makes the optimiser of the model of
            recorded actions.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
        imitator_encoder_factory: Factory of the encoders of the model of recorded actions.
        q_func_factory: Factory of the Q-functions.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        lam: Weight of the minimum over the critics in targets. The maximum has the weight 1 - lam.
        warmup_steps: Number of updates of the model of recorded actions before the policy and the critics learn.
        beta: Weight of the divergence in the loss of the model of recorded actions.
    """

    actor_learning_rate: float = 1e-4
    imitator_learning_rate: float = 1e-4
    lam: float = 0.75
    warmup_steps: int = 500_000
    beta: float = 0.5


@dataclasses.dataclass
class PLASWithPerturbationConfig(PLASConfig, type_name="plas_with_perturbation"):
    """Config of PLAS with a perturbation of the decoded actions (arXiv:2011.07213).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        imitator_learning_rate: Learning rate of the model of recorded actions.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        imitator_optim_factory: Ignored, as in d3rlpy: `critic_optim_factory` also makes the optimiser of the model of
            recorded actions.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
        imitator_encoder_factory: Factory of the encoders of the model of recorded actions.
        q_func_factory: Factory of the Q-functions.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        lam: Weight of the minimum over the critics in targets. The maximum has the weight 1 - lam.
        warmup_steps: Number of updates of the model of recorded actions before the policy and the critics learn.
        beta: Weight of the divergence in the loss of the model of recorded actions.
        action_flexibility: Maximum absolute change of a decoded action.
    """

    action_flexibility: float = 0.05


@dataclasses.dataclass
class BEARConfig(LearnableConfig, type_name="bear"):
    """Config of Bootstrapping Error Accumulation Reduction (arXiv:1906.00949).

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
        imitator_learning_rate: Learning rate of the model of recorded actions.
        temp_learning_rate: Learning rate of the temperature.
        alpha_learning_rate: Ignored, as in d3rlpy: `actor_learning_rate` is also that of the Lagrange multiplier alpha.
        actor_optim_factory: Factory of the policy's optimiser.
        critic_optim_factory: Factory of the critics' optimiser.
        imitator_optim_factory: Factory of the optimiser of the model of recorded actions.
        temp_optim_factory: Factory of the temperature's optimiser.
        alpha_optim_factory: Factory of alpha's optimiser.
        actor_encoder_factory: Factory of the policy's encoder.
        critic_encoder_factory: Factory of the critics' encoders.
        imitator_encoder_factory: Factory of the encoders of the model of recorded actions.
        q_func_factory: Factory of the Q-functions.
        tau: Coefficient of the soft target update: target = tau * online network + (1 - tau) * target.
        n_critics: Number of Q-functions. Targets use the minimum of their values.
        initial_temperature: Initial temperature.
        initial_alpha: Initial Lagrange multiplier alpha.
        alpha_threshold: Threshold of the constraint whose Lagrange multiplier is alpha.
        lam: Weight of the minimum over the critics in targets. The maximum has the weight 1 - lam.
        n_action_samples: Number of sampled actions from which the policy selects the action with the highest value.
        n_target_samples: Number of sampled actions per state in targets.
        n_mmd_action_samples: Number of sampled actions per state in the maximum mean discrepancy.
        mmd_kernel: Kernel of the maximum mean discrepancy: "gaussian" or "laplacian".
        mmd_sigma: Width of the kernel.
        vae_kl_weight: Weight of the divergence in the loss of the model of recorded actions.
        warmup_steps: Number of updates before the policy maximises the critics' values.
    """

    actor_learning_rate: float = 1e-4
    critic_learning_rate: float = 3e-4
    imitator_learning_rate: float = 3e-4
    temp_learning_rate: float = 1e-4
    alpha_learning_rate: float = 1e-3
    actor_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    critic_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    imitator_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    temp_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    alpha_optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    actor_encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    critic_encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    imitator_encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    q_func_factory: QFunctionFactory = dataclasses.field(default_factory=MeanQFunctionFactory)
    tau: float = 0.005
    n_critics: int = 2
    initial_temperature: float = 1.0
    initial_alpha: float = 1.0
    alpha_threshold: float = 0.05
    lam: float = 0.75
    n_action_samples: int = 100
    n_target_samples: int = 10
    n_mmd_action_samples: int = 4
    mmd_kernel: str = "laplacian"
    mmd_sigma: float = 20.0
    vae_kl_weight: float = 0.5
    warmup_steps: int = 40_000


@dataclasses.dataclass
class BCConfig(LearnableConfig, type_name="bc"):
    """Config of behaviour cloning.

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step. It has no effect.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted. It has no effect.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        learning_rate: Learning rate.
        policy_type: "deterministic" or "stochastic".
        optim_factory: Factory of the optimiser.
        encoder_factory: Factory of the encoder.
    """

    batch_size: int = 100
    learning_rate: float = 1e-3
    policy_type: str = "deterministic"
    optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)


@dataclasses.dataclass
class DiscreteBCConfig(LearnableConfig, type_name="discrete_bc"):
    """Config of behaviour cloning of discrete actions.

    Args:
        batch_size: Number of transitions per minibatch.
        gamma: Discount factor per step. It has no effect.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Must be None, because actions are discrete.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted. It has no effect.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        learning_rate: Learning rate.
        optim_factory: Factory of the optimiser.
        encoder_factory: Factory of the encoder.
        beta: Weight of the squared log-probabilities in the loss.
    """

    batch_size: int = 100
    learning_rate: float = 1e-3
    optim_factory: OptimizerFactory = dataclasses.field(default_factory=AdamFactory)
    encoder_factory: EncoderFactory = dataclasses.field(default_factory=DefaultEncoderFactory)
    beta: float = 0.5


@dataclasses.dataclass
class RandomPolicyConfig(LearnableConfig, type_name="random_policy"):
    """Config of a policy of random continuous actions.

    Args:
        batch_size: Number of transitions per minibatch. It has no effect.
        gamma: Discount factor per step. It has no effect.
        observation_scaler: Scaler of observations. It has no effect.
        action_scaler: Scaler of actions, whose range the actions have. If None, their range is [-1, 1].
        reward_scaler: Scaler of rewards. It has no effect.
        compile_graph: True to compile the update. It has no effect.
        distribution: "uniform" or "normal".
        normal_std: Standard deviation of normal actions.
    """

    distribution: str = "uniform"
    normal_std: float = 1.0


@dataclasses.dataclass
class DiscreteRandomPolicyConfig(LearnableConfig, type_name="discrete_random_policy"):
    """Config of a policy of random discrete actions.

    Args:
        batch_size: Number of transitions per minibatch. It has no effect.
        gamma: Discount factor per step. It has no effect.
        observation_scaler: Scaler of observations. It has no effect.
        action_scaler: Must be None, because actions are discrete.
        reward_scaler: Scaler of rewards. It has no effect.
        compile_graph: True to compile the update. It has no effect.
    """


@dataclasses.dataclass
class DecisionTransformerConfig(TransformerConfig, type_name="decision_transformer"):
    """Config of Decision Transformer (arXiv:2106.01345).

    Args:
        batch_size: Number of sequences per minibatch.
        gamma: Discount factor per step. It has no effect.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Scaler of continuous actions. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        context_size: Maximum number of steps that the transformer sees.
        max_timestep: Maximum number of steps of an episode.
        learning_rate: Learning rate.
        encoder_factory: Factory of the encoder.
        optim_factory: Factory of the optimiser.
        num_heads: Number of attention heads of a layer.
        num_layers: Number of layers.
        attn_dropout: Probability that an attention weight is set to 0 in training.
        resid_dropout: Probability that an output of a layer is set to 0 in training.
        embed_dropout: Probability that an embedded token's entry is set to 0 in training.
        activation_type: Activation of the layers: "relu", "gelu", "tanh", "swish" or "none".
        position_encoding_type: Encoding of positions.
    """

    batch_size: int = 64
    position_encoding_type: PositionEncodingType = PositionEncodingType.SIMPLE


@dataclasses.dataclass
class DiscreteDecisionTransformerConfig(TransformerConfig, type_name="discrete_decision_transformer"):
    """Config of Decision Transformer for discrete actions (arXiv:2106.01345).

    Args:
        batch_size: Number of sequences per minibatch.
        gamma: Discount factor per step. It has no effect.
        observation_scaler: Scaler of observations. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        action_scaler: Must be None, because actions are discrete.
        reward_scaler: Scaler of rewards in training. If None, they are not scaled. `fit` fits a scaler that is not
            fitted.
        compile_graph: True to compile the update, also on the CPU, where d3rlpy does not compile.
        context_size: Maximum number of steps that the transformer sees.
        max_timestep: Maximum number of steps of an episode.
        learning_rate: Learning rate.
        encoder_factory: Factory of the encoder.
        optim_factory: Factory of the optimiser.
        num_heads: Number of attention heads of a layer.
        num_layers: Number of layers.
        attn_dropout: Probability that an attention weight is set to 0 in training.
        resid_dropout: Probability that an output of a layer is set to 0 in training.
        embed_dropout: Probability that an embedded token's entry is set to 0 in training.
        activation_type: Activation of the layers: "relu", "gelu", "tanh", "swish" or "none".
        embed_activation_type: Activation of the embeddings: "relu", "gelu", "tanh", "swish" or "none".
        position_encoding_type: Encoding of positions.
        warmup_tokens: Number of tokens in which the learning rate grows to its maximum.
        final_tokens: Number of tokens until the learning rate reaches its minimum.
    """

    batch_size: int = 128
    learning_rate: float = 6e-4
    num_heads: int = 8
    num_layers: int = 6
    activation_type: str = "gelu"
    embed_activation_type: str = "tanh"
    position_encoding_type: PositionEncodingType = PositionEncodingType.GLOBAL
    warmup_tokens: int = 10_240
    final_tokens: int = 30_000_000
