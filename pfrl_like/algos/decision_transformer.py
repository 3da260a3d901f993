"""Estimators of Decision Transformers."""

import os
from typing import Any, ClassVar, NoReturn

import numpy as np
import torch
from torch import nn

from pfrl_like import agents
from pfrl_like.agents.offline.decision_transformer import ReturnContext
from pfrl_like.algos.fitting.base import Estimator
from pfrl_like.algos.fitting.hyperparameters import LATER_NAMES
from pfrl_like.algos.fitting.minibatches import TrainingData
from pfrl_like.algos.fitting.networks import adam
from pfrl_like.algos.fitting.online import PolicyCollector
from pfrl_like.algos.fitting.unsupported import NoValues
from pfrl_like.dataset.selection import SelectedSequences
from pfrl_like.distributions import mode_of
from pfrl_like.errors import ExportError
from pfrl_like.learning.model_outputs import allowed
from pfrl_like.nn import ReturnConditionedTransformer
from pfrl_like.policies import DeterministicHead, SoftmaxCategoricalHead
from pfrl_like.replay_buffers import EpisodicReplayBuffer
from pfrl_like.utils.checks import check_counts, check_numbers
from pfrl_like.utils.contexts import evaluation_mode

#: Hyperparameters that must have these values, with the reasons.
_FIXED: dict[str, tuple[Any, str]] = {
    "n_frames": (1, "an environment that stacks frames"),
    "n_augmentations": (1, "one augmented copy"),
    "reward_scaler": (None, "return_scale"),
    "dynamics": (None, "recorded episodes only"),
    "compile": (False, "compile=False"),
}


class StatefulTransformerWrapper:
    """Acts in one environment with a Decision Transformer, and stores the last steps of the running episode.

    Args:
        algo: Estimator whose agent is built.
        target_return: Return that each episode aims at.
    """

    def __init__(self, algo: Any, target_return: float) -> None:
        self.algo, self.target_return = algo, target_return
        self._context = ReturnContext(algo._agent.context_size)

    def predict(self, x: Any, reward: float, *, action_mask: Any = None) -> Any:
        """Return the most probable action for the next observation of the episode: an array [action_size], or an int.

        Args:
            x: Observation.
            reward: Reward of the last action. It is ignored at the first step of an episode.
            action_mask: True for allowed discrete actions, [n_actions]. None allows all actions.
        """
        agent = self.algo._agent
        self._context.add_reward(0, float(reward), False)
        with torch.no_grad(), evaluation_mode(agent.policy):
            obs = self.algo._features(np.asarray(x)[None])
            distribution = self._context.append_obs(agent.policy, [0], obs, self.target_return, agent.return_scale)
            action = mode_of(allowed(distribution, action_mask))
        self._context.set_actions([0], action)
        unscaled = self.algo._unscaled(action.cpu().numpy())[0]
        return int(unscaled) if self.algo.discrete_action else unscaled

    def set_action(self, action: Any) -> None:
        """Replace the last action of `predict` by another action that was taken in its place."""
        self._context.set_actions([0], self.algo._actions(np.asarray(action)[None]))

    def reset(self) -> None:
        """Begin a new episode."""
        self._context.clear()


class TransformerCollector(PolicyCollector):
    """Collector that acts with a `StatefulTransformerWrapper`. The arguments are those of `PolicyCollector`.

    Explorers change the greedy actions of the wrapper, which stores the actions that were taken.
    """

    def __init__(self, algo: Any, buffer: Any, explorer: Any, action_space: Any) -> None:
        self._wrapper, self._reward = algo.as_stateful_wrapper(), 0.0
        super().__init__(algo, buffer, explorer, action_space)

    def _begin(self) -> None:
        super()._begin()
        self._wrapper.reset()

    def choose(self, obs: Any, action_mask: Any) -> Any:
        """Return the wrapper's action for the next step of the episode, or the action that the explorer selects."""
        greedy = self._wrapper.predict(obs, self._reward, action_mask=action_mask)
        action = self.explore(lambda x, action_mask=None: np.asarray([greedy]), obs, action_mask, self.steps)
        self._wrapper.set_action(action)
        return action

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        """Store the step that leads to `obs`."""
        self._reward = float(reward)
        super().observe(obs, reward, done, reset, action_mask=action_mask)


class DecisionTransformer(NoValues, Estimator):
    """Estimator for Decision Transformer; the agent is a `pfrl_like.agents.DecisionTransformer`.

    The transformer learns to predict actions of recorded sequences from the returns-to-go. `predict` treats each
    observation as the first observation of an episode. `as_stateful_wrapper` returns an object that acts for whole
    episodes. `collect` and `pfrl_like.metrics.evaluate_on_environment` use such an object. An epoch contains as many
    sequences as there are transitions.

    There are three differences from d3rlpy 2.8. The positions of steps are their indices in the sequence, so there is
    no `max_timestep`. The layers of the network differ, and one `dropout` applies to all of them. The squared error is
    averaged over the components of an action and over the steps of the sequences, without padding.

    Args:
        context_size: Number of last steps that the network receives, and length of the sequences in training.
        num_layers: Number of layers of the transformer.
        num_heads: Number of attention heads of each layer; a divisor of the size of the encoder's output.
        dropout: Probability that an activation of the transformer is set to 0.
        target_return: Return that `predict` aims at in each episode.
        return_scale: The network receives returns-to-go divided by this number, positive.
        learning_rate: Learning rate of the network.
        eps: Epsilon of Adam.
        batch_size: Number of transitions per minibatch.
        n_frames: Number of consecutive images that are stacked along the channel axis into one observation. Must be 1,
            because sequences of stacked frames are not supported.
        use_batch_norm: True to apply batch normalisation after each layer of the networks.
        use_gpu: Device to use: False for the CPU, True for the first GPU, the index of a GPU, or a
            `pfrl_like.gpu.Device`.
        compile: True to compile the update of the agent, and the greedy actions of Q-learning. The second call
            compiles, which takes about 30 s. Results differ by rounding. Must be False.
        scaler: Scaler of the observations: "pixel", "min_max", "standard", or a `Scaler`. `observation_scaler` is
            another name of this argument. The first call of `fit` fits the scalers of observations, actions and rewards
            that are not fitted yet.
        action_scaler: Scaler of continuous actions: "min_max", "standard", or a `Scaler`. The agent `impl` learns from
            scaled actions and returns scaled actions. "min_max" scales actions to [-1, 1], the output range of the
            policies. Explorers, replay buffers and the methods of the estimator use unscaled actions. `fit_online` fits
            "min_max" to the bounds of the action space.
        reward_scaler: Scaler of the rewards in training: "min_max", "standard", "return", "multiply", or a `Scaler` of
            rewards such as `ClipRewardScaler(-1.0, 1.0)`. Predicted returns are then returns of scaled rewards. Must be
            None: use `return_scale`.
        augmentation: List of augmentations or of names of augmentations, or an `AugmentationPipeline`. None or an empty
            list disables augmentation.
        n_augmentations: Number of augmented copies of each row. The loss is the mean over the copies. Must be 1.
        encoder_params: Dict with the layer sizes of the encoder. For vector observations: "hidden_units", a list of
            layer sizes. For image observations: "filters", a list of (channels, kernel size, stride), and
            "feature_size", the size of the last linear layer.
        dynamics: Dynamics model, such as `MOPO`. At the beginning of each epoch it generates additional transitions for
            this epoch. If None, the estimator uses recorded transitions only. Must be None, because generated
            transitions are no sequences.
        n_epochs: Number of epochs if `fit` is called without the argument `n_epochs`. None means 1000.
        impl: Agent to use. If None, the estimator builds an agent.
    """

    agent_class: ClassVar[Any] = agents.DecisionTransformer
    collector_class = TransformerCollector
    ignores_unknown = False
    loss_names: ClassVar[Any] = {"loss": "loss"}
    later_names: ClassVar[Any] = {
        **LATER_NAMES,
        **dict.fromkeys(["attn_dropout", "embed_dropout", "resid_dropout"], "use dropout, which applies to all layers"),
        **dict.fromkeys(["max_timestep", "position_encoding_type"], "positions are indices in the sequence"),
        **dict.fromkeys(["activation_type", "embed_activation_type"], "the layers are fixed"),
        **dict.fromkeys(["final_tokens", "warmup_tokens"], "the learning rate is constant"),
        "gamma": "returns-to-go are sums without a discount",
    }

    batch_size = 64
    learning_rate: float = 1e-4
    eps: float = 1e-8
    context_size: int = 20
    num_heads: int = 1
    num_layers: int = 3
    dropout: float = 0.1
    target_return: float = 0.0
    return_scale: float = 1.0

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        self._check_fixed()
        check_counts(context_size=self.context_size, num_heads=self.num_heads, num_layers=self.num_layers)
        check_numbers(0, 1, dropout=self.dropout)
        encoder = self._encoder(observation_shape)
        size = encoder.feature_size
        if size % self.num_heads:
            raise ValueError(f"num_heads is {self.num_heads}, expected a divisor of {size}, the encoder's output size")
        policy = ReturnConditionedTransformer(
            encoder, action_size, self._head(size, action_size), discrete=self.discrete_action, hidden_size=size,
            context_size=self.context_size, n_layers=self.num_layers, n_heads=self.num_heads, dropout=self.dropout,
        )  # fmt: skip
        return self.agent_class(
            policy, adam(policy, self.learning_rate, self.eps), target_return=self.target_return,
            return_scale=self.return_scale, **self._common() | {"replay_buffer": EpisodicReplayBuffer(None)},
        )  # fmt: skip

    def _head(self, size: int, action_size: int) -> nn.Module:
        """Return the last layers of the network."""
        return nn.Sequential(nn.Linear(size, action_size), nn.Tanh(), DeterministicHead())

    def _check_fixed(self) -> None:
        """Raise an error if a hyperparameter has a value that does not work with sequences."""
        for name, (value, instead) in _FIXED.items():
            if (given := getattr(self, name)) != value:
                raise ValueError(f"{name} is {given!r:.80}, but {type(self).__name__} needs {value}: use {instead}")

    def _training_data(self, episodes: Any) -> TrainingData:
        self._check_fixed()
        data = super()._training_data(episodes)
        data.source = SelectedSequences(episodes, self.context_size)
        return data

    def predict(self, x: Any, *, action_mask: Any = None) -> Any:
        """Return greedy actions for observations that are the first of an episode, as in `Estimator.predict`.

        Arguments, results and errors are the same as in `Estimator.predict`.
        """
        agent = self._agent
        with agent.eval_mode():
            agent.stop_episode()  # the agent stores the observations of running episodes
            actions = super().predict(x, action_mask=action_mask)
            agent.stop_episode()
        return actions

    def as_stateful_wrapper(self, target_return: float | None = None) -> StatefulTransformerWrapper:
        """Return an object that acts in an environment with the methods `predict(x, reward)` and `reset()`.

        Args:
            target_return: Return that each episode aims at. None means the `target_return` of the agent.

        Raises:
            NotFittedError: If the agent is not built yet.
        """
        return StatefulTransformerWrapper(self, self._agent.target_return if target_return is None else target_return)

    def save_policy(self, fname: str | os.PathLike[str], as_onnx: bool = False) -> NoReturn:
        """Raise an error, because actions depend on several steps. Use `as_stateful_wrapper` instead.

        Raises:
            NotFittedError: If the agent is not built yet.
            ExportError: Otherwise.
        """
        agent = type(self._agent).__name__
        raise ExportError(f"actions of a {agent} depend on several steps: save_model, and act with as_stateful_wrapper")

    def fit_online(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise an error, because a Decision Transformer learns only from recorded episodes.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{type(self).__name__} does not learn in an environment: use fit")


class DiscreteDecisionTransformer(DecisionTransformer):
    """Estimator for Decision Transformer with discrete actions; the agent is a `DiscreteDecisionTransformer`.

    For differences from d3rlpy 2.8 see `DecisionTransformer`. In d3rlpy the learning rate first grows and then falls.
    Here it is constant. `as_stateful_wrapper` selects the most probable action, in d3rlpy it samples.

    Args:
        context_size: Number of last steps that the network receives, and length of the sequences in training.
        num_layers: Number of layers of the transformer.
        num_heads: Number of attention heads of each layer; a divisor of the size of the encoder's output.
        dropout: Probability that an activation of the transformer is set to 0.
        target_return: Return that `predict` aims at in each episode.
        return_scale: The network receives returns-to-go divided by this number, positive.
        learning_rate: Learning rate of the network.
        eps: Epsilon of Adam.
        batch_size: Number of transitions per minibatch.
        n_frames: Number of consecutive images that are stacked along the channel axis into one observation. Must be 1,
            because sequences of stacked frames are not supported.
        use_batch_norm: True to apply batch normalisation after each layer of the networks.
        use_gpu: Device to use: False for the CPU, True for the first GPU, the index of a GPU, or a
            `pfrl_like.gpu.Device`.
        compile: True to compile the update of the agent, and the greedy actions of Q-learning. The second call
            compiles, which takes about 30 s. Results differ by rounding. Must be False.
        scaler: Scaler of the observations: "pixel", "min_max", "standard", or a `Scaler`. `observation_scaler` is
            another name of this argument. The first call of `fit` fits the scalers of observations, actions and rewards
            that are not fitted yet.
        action_scaler: Scaler of continuous actions: "min_max", "standard", or a `Scaler`. The agent `impl` learns from
            scaled actions and returns scaled actions. "min_max" scales actions to [-1, 1], the output range of the
            policies. Explorers, replay buffers and the methods of the estimator use unscaled actions. `fit_online` fits
            "min_max" to the bounds of the action space.
        reward_scaler: Scaler of the rewards in training: "min_max", "standard", "return", "multiply", or a `Scaler` of
            rewards such as `ClipRewardScaler(-1.0, 1.0)`. Predicted returns are then returns of scaled rewards. Must be
            None: use `return_scale`.
        augmentation: List of augmentations or of names of augmentations, or an `AugmentationPipeline`. None or an empty
            list disables augmentation.
        n_augmentations: Number of augmented copies of each row. The loss is the mean over the copies. Must be 1.
        encoder_params: Dict with the layer sizes of the encoder. For vector observations: "hidden_units", a list of
            layer sizes. For image observations: "filters", a list of (channels, kernel size, stride), and
            "feature_size", the size of the last linear layer.
        dynamics: Dynamics model, such as `MOPO`. At the beginning of each epoch it generates additional transitions for
            this epoch. If None, the estimator uses recorded transitions only. Must be None, because generated
            transitions are no sequences.
        n_epochs: Number of epochs if `fit` is called without the argument `n_epochs`. None means 1000.
        impl: Agent to use. If None, the estimator builds an agent.
    """

    agent_class = agents.DiscreteDecisionTransformer
    discrete_action = True

    batch_size = 128
    learning_rate = 6e-4
    num_heads = 8
    num_layers = 6

    def _head(self, size: int, action_size: int) -> nn.Module:
        return nn.Sequential(nn.Linear(size, action_size), SoftmaxCategoricalHead())
