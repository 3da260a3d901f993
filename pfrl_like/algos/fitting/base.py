"""`Estimator`, the base class of estimators. An estimator builds and trains an agent, and returns its predictions."""

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Never, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfrl_like.algos.fitting import spaces
from pfrl_like.algos.fitting.fitting import Fitting
from pfrl_like.algos.fitting.hyperparameters import LATER_NAMES, Hyperparameters, Retuning, check_ranges
from pfrl_like.algos.fitting.minibatches import fitting_batch
from pfrl_like.algos.fitting.online import OnlineFitting
from pfrl_like.algos.fitting.saving import ESTIMATORS as ESTIMATORS
from pfrl_like.algos.fitting.saving import Saving
from pfrl_like.algos.fitting.spaces import Spaces
from pfrl_like.augmentation import BatchAugmentation, pipeline_of
from pfrl_like.batch import Batch, first_leaf
from pfrl_like.dataset import TransitionMiniBatch
from pfrl_like.encoders import Encoder, make_encoder
from pfrl_like.errors import NotFittedError
from pfrl_like.gpu import Device, resolve_device
from pfrl_like.learning.model_outputs import allowed
from pfrl_like.preprocessing import make_scaler
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils.checks import alias, check_counts
from pfrl_like.utils.contexts import evaluation_mode, evaluation_mode_of_all
from pfrl_like.utils.env_values import mask_keyword

Array = NDArray[Any]


def accept_single_batch(update: Any) -> Any:
    """Decorate `update` so that the call `update(batch)` is also possible. This call returns a dict of losses."""

    @functools.wraps(update)
    def update_with_defaults(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) + len(kwargs) != 1:
            return update(self, *args, **kwargs)
        (batch,) = [*args, *kwargs.values()]
        agent = self._agent
        n_updates = max(0, agent.optim_t + 1 - getattr(agent, "policy_update_delay", 1))
        epoch, total_step = self._update_position or (0, n_updates)
        losses = update(self, epoch, total_step, batch)
        return dict(zip(self._last_update[1], losses, strict=True))

    return update_with_defaults


class Estimator(Fitting, OnlineFitting, Saving, Retuning, Spaces, Hyperparameters):
    """Base class of estimators.

    The constructor only stores the hyperparameters. `fit` (or `create_impl`) builds the agent and stores it as `impl`.
    Later calls of `fit` or `fit_online` continue the training of this agent with the current hyperparameters. A clone
    of an estimator has no agent.

    Args:
        batch_size: Number of transitions per minibatch.
        n_frames: Number of consecutive images that are stacked along the channel axis into one observation.
        use_batch_norm: True to apply batch normalisation after each layer of the networks.
        use_gpu: Device to use: False for the CPU, True for the first GPU, the index of a GPU, or a
            `pfrl_like.gpu.Device`.
        compile: True to compile the update of the agent, and the greedy actions of Q-learning. The second call
            compiles, which takes about 30 s. Results differ by rounding.
        scaler: Scaler of the observations: "pixel", "min_max", "standard", or a `Scaler`. `observation_scaler` is
            another name of this argument. The first call of `fit` fits the scalers of observations, actions and rewards
            that are not fitted yet.
        action_scaler: Scaler of continuous actions: "min_max", "standard", or a `Scaler`. The agent `impl` learns from
            scaled actions and returns scaled actions. "min_max" scales actions to [-1, 1], the output range of the
            policies. Explorers, replay buffers and the methods of the estimator use unscaled actions. `fit_online` fits
            "min_max" to the bounds of the action space.
        reward_scaler: Scaler of the rewards in training: "min_max", "standard", "return", "multiply", or a `Scaler` of
            rewards such as `ClipRewardScaler(-1.0, 1.0)`. Predicted returns are then returns of scaled rewards.
        augmentation: List of augmentations or of names of augmentations, or an `AugmentationPipeline`. None or an empty
            list disables augmentation.
        n_augmentations: Number of augmented copies of each row. The loss is the mean over the copies.
        encoder_params: Dict with the layer sizes of the encoder. For vector observations: "hidden_units", a list of
            layer sizes. For image observations: "filters", a list of (channels, kernel size, stride), and
            "feature_size", the size of the last linear layer.
        dynamics: Dynamics model, such as `MOPO`. At the beginning of each epoch it generates additional transitions for
            this epoch. If None, the estimator uses recorded transitions only.
        n_epochs: Number of epochs if `fit` is called without the argument `n_epochs`. None means 1000.
        impl: Agent to use. If None, the estimator builds an agent.
        kwargs: Unknown hyperparameters. They are ignored with a warning. Hyperparameters of later d3rlpy versions raise
            a TypeError that names the equivalent in this library.

    Attributes:
        impl: The agent; None before it is built.
        scaler: `Scaler` object, created from the argument if the argument was a name. After the agent is built, the
            attribute is the fitted scaler. The same applies to `action_scaler` and `reward_scaler`.
        augmentation: `AugmentationPipeline` created from the argument.
        scaler_: Fitted scaler of observations; None before the agent is built. `action_scaler_` and `reward_scaler_`
            are the fitted scalers of actions and rewards.
        eval_results_: Dict of lists of scores, one score per epoch; keys are the names of the scorers.
        observation_shape_: Shape of one observation without stacked frames; None before the agent is built.
        action_size_: Size of a continuous action, or number of discrete actions; None before the agent is built.
    """

    #: Names of the metrics of an update; values are the names of the agent's statistics.
    loss_names: ClassVar[Mapping[str, str]] = {}
    #: True if the agent learns to predict next observations. Then transitions without a recorded next observation are
    #: skipped.
    learns_next_observations: ClassVar[bool] = False
    #: Attributes of the agent that are logged as metrics at the end of each epoch.
    state_names: ClassVar[tuple[str, ...]] = ()
    #: True if the agent learns from actions scaled by `action_scaler`, and returns scaled actions.
    acts_scaled: ClassVar[bool] = True
    spellings: ClassVar[Mapping[str, str]] = {"observation_scaler": "scaler"}
    later_names: ClassVar[Mapping[str, str]] = LATER_NAMES
    #: Methods that build the agent, for error messages.
    builders: ClassVar[str] = "fit, fit_online, create_impl or load_model"
    #: Hyperparameters that have a different name in error messages; values are the names in messages.
    names_in_errors: ClassVar[Mapping[str, str]] = {}
    #: The function `pfrl_like.ope.evaluate_offline`. `pfrl_like.ope` sets this attribute: estimators must not import
    #: `ope`.
    evaluate: ClassVar[Callable[..., Mapping[str, Any]] | None] = None
    made_by: ClassVar[Mapping[str, Any]] = {
        **{name: functools.partial(make_scaler, column=column) for name, column in spaces.SCALERS.items()},
        "augmentation": pipeline_of,
    }

    batch_size: int = 100
    n_frames: int = 1
    use_batch_norm: bool = False
    use_gpu: Any = False
    compile: bool = False
    scaler: Any = None
    action_scaler: Any = None
    reward_scaler: Any = None
    augmentation: Any = []
    n_augmentations: int = 1
    encoder_params: Any = {}
    dynamics: Any = None
    n_epochs: int | None = None
    impl: Any = None

    #: Agent that the user passed as `impl`.
    _user_impl: Any = None
    #: TD errors and losses of the last update.
    _last_update: Any = None
    #: Numbers of epochs and updates so far, while a subclass's `update` is running; otherwise None.
    _update_position: tuple[int, int] | None = None

    scaler_: Any = None
    action_scaler_: Any = None
    reward_scaler_: Any = None
    eval_results_: dict[str, list[float]] = {}

    def set_params(self, **params: Any) -> Self:
        """Set hyperparameters; unknown hyperparameters are ignored with a warning that contains the nearest name.

        If the class attribute `ignores_unknown` is False, unknown hyperparameters raise an error with this name.

        If the agent is already built, new values of hyperparameters such as learning rates, `gamma` and `tau` apply to
        the agent immediately. If the user assigns a value to an attribute instead, the value applies to the agent at
        the next call of `fit`.

        Returns:
            The estimator itself.

        Raises:
            ValueError: If a value is out of range, or if a hyperparameter such as `n_critics` cannot change because the
                agent is already built. All hyperparameters stay unchanged.
            TypeError: If a value has the wrong type, or if a hyperparameter is unknown and `ignores_unknown` is False.
                All hyperparameters stay unchanged.
        """
        before = dict(vars(self))
        try:
            super().set_params(**params)
            self.use_gpu = Device.of(self.use_gpu)  # a deep copy of a `Device` can be another GPU
            if "impl" in params:
                self._user_impl, self._agent_args = self.impl, self.get_params(deep=False)
            self.retune()
        except (TypeError, ValueError):
            vars(self).update(before)
            raise
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all hyperparameters, keyed by name; a new estimator with these arguments is an unfitted clone.

        Args:
            deep: True to return deep copies of the values.
        """
        params = super().get_params(deep=False) | {"impl": self._user_impl}
        return copy.deepcopy(params) if deep else params

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted estimator whose hyperparameters are deep copies, including the model `dynamics`."""
        return type(self)(**self.get_params())

    # Building

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        """Build the agent for stacked observations of this shape and actions of this size."""
        raise NotImplementedError(f"{type(self).__name__} does not define _build_agent")

    def create_impl(self, observation_shape: Any, action_size: int) -> None:
        """Build the agent; `fit` and `fit_online` call this method with the shapes of the data or the environment.

        Args:
            observation_shape: Shape of one observation without stacked frames.
            action_size: Size of a continuous action, or number of discrete actions.

        Raises:
            ValueError: If a hyperparameter or a shape is out of range. The message contains the value.
            TypeError: If a hyperparameter or a shape has the wrong type. The message contains the value.
        """
        shape = spaces.shape_of_one(observation_shape, self.takes_tuples)
        check_counts(action_size=action_size)
        check_ranges(self)
        spaces.set_scalers(self, spaces.copy_scalers(self, fitted=True))
        self.observation_shape_, self.action_size_ = shape, int(action_size)
        agent = self._build_agent(self._stacked_shape, self.action_size_)
        if self.compile and not getattr(agent, "is_compiled", False):
            raise ValueError(f"compile is True, but {type(self).__name__} cannot be compiled: set compile=False")
        self.impl = agent
        self.impl.observation_shape, self.impl.action_size = shape, self.action_size_  # which users' explorers read
        self.impl.augment = self._augment()
        self._agent_args = self.get_params(deep=False)

    def _augment(self) -> Callable[[Batch], Batch] | None:
        """Return the function that scales and augments minibatches; None if nothing is scaled or augmented."""
        check_counts(n_augmentations=self.n_augmentations)
        pipeline = pipeline_of(self.augmentation)
        augment = BatchAugmentation(pipeline, self.n_augmentations, self.scaler_) if len(pipeline) else None
        if self.scaler_of_agent is None and self.reward_scaler_ is None:
            return augment
        return spaces.BatchScaling(self.scaler_of_agent, self.reward_scaler_, augment)

    @property
    def scaler_of_agent(self) -> Any:
        """Fitted scaler that converts actions of the data to actions of the agent; None if actions are unscaled."""
        return self.action_scaler_ if self.acts_scaled else None

    def fit_scaler(self, episodes: Any) -> None:
        """Fit the scalers that are not fitted yet. `fit` calls this method before it builds the agent."""
        scalers = spaces.copy_scalers(self)
        for scaler in scalers.values():
            if scaler is not None and not scaler.fitted:
                scaler.fit(episodes)
        spaces.set_scalers(self, scalers)

    def _encoder(self, observation_shape: tuple[int, ...], action_size: int = 0) -> Encoder:
        return make_encoder(
            observation_shape, self.encoder_params, action_size=action_size, use_batch_norm=self.use_batch_norm,
            scaler=self.scaler_,
        )  # fmt: skip

    def _common(self) -> dict[str, Any]:
        """Return the constructor arguments that all agents have. In offline training the replay buffer stays empty."""
        return {
            "replay_buffer": ReplayBuffer(None), "device": self._device, "minibatch_size": self.batch_size,
            "replay_start_size": self.batch_size, **({"compile": True} if self.compile else {}),
        }  # fmt: skip

    @property
    def _device(self) -> torch.device:
        device = Device.of(self.use_gpu)
        return resolve_device(None if device is None else device.get_id())

    # Predictions

    def predict(self, x: Any, *, action_mask: Any = None) -> Array:
        """Return greedy actions.

        Args:
            x: Observations with stacked frames, [n, ...].
            action_mask: True for allowed discrete actions, [n, n_actions] or [n_actions]. None allows all actions.

        Returns:
            Actions, [n, action_size], or [n] if discrete.

        Raises:
            NotFittedError: If the agent is not built yet.
            ValueError: If the observations or the mask have the wrong shape.
            NonFiniteError: If an observation contains NaN or infinity.
            TypeError: If there is a mask and actions are continuous.
        """
        agent, obs, size = self._agent, self._observations(x), self.action_size_
        spaces.check_mask(self, action_mask)
        if not len(obs) and size is not None:
            return np.zeros(0, np.int64) if self.discrete_action else np.zeros((0, size), np.float32)
        with agent.eval_mode():
            return self._unscaled(np.asarray(agent.batch_act(obs, **mask_keyword(action_mask))))

    def sample_action(self, x: Any, *, action_mask: Any = None) -> Array:
        """Return actions sampled from the policy, or greedy actions if the agent has no policy.

        Arguments and errors are the same as in `predict`.
        """
        policy = getattr(self._agent, "policy", None)
        if policy is None:
            return self.predict(x, **mask_keyword(action_mask))
        spaces.check_mask(self, action_mask)
        with torch.no_grad(), evaluation_mode(policy):
            actions = allowed(policy(self._features(x)), action_mask).sample()
        return self._unscaled(actions.cpu().numpy())

    def predict_value(self, x: Any, action: Any, with_std: bool = False) -> Any:
        """Return the values of actions, averaged over the critics.

        Args:
            x: Observations with stacked frames, [n, ...].
            action: Actions, [n, action_size], or [n] if discrete.
            with_std: True to also return the standard deviations over the critics.

        Returns:
            Values, [n]. If `with_std` is True, a pair: values and standard deviations over the critics, [n] each.

        Raises:
            NotFittedError: If the agent is not built yet.
            ValueError: If observations or actions have the wrong shape.
        """
        agent, obs, actions = self._agent, self._features(x), self._actions(action)
        spaces.check_equal_lengths(first_leaf(obs), actions)
        modules = [part for name in agent.saved_attributes if isinstance(part := getattr(agent, name), torch.nn.Module)]
        with torch.no_grad(), evaluation_mode_of_all(*modules):
            values = agent.values_of_pairs(obs, actions)
        mean = values.mean(0).cpu().numpy()
        return (mean, values.std(0, correction=0).cpu().numpy()) if with_std else mean

    def __getstate__(self) -> dict[str, Any]:
        evaluate = {} if self.evaluate is None else {"evaluate": self.evaluate}  # another process may not import `ope`
        return {**vars(self), **evaluate}

    @property
    def evaluate_offline(self) -> Never:
        """Raise an AttributeError that recommends the function `pfrl_like.ope.evaluate_offline`."""
        raise AttributeError("no evaluate_offline in estimators: call pfrl_like.ope.evaluate_offline(estimator, data)")

    def score(self, episodes: Any, y: Any = None, **options: Any) -> float:
        """Return the discounted return that fitted Q evaluation estimates. scikit-learn uses it as the score.

        Args:
            episodes: A dataset or a list of episodes.
            y: Ignored.
            options: Other arguments of `pfrl_like.ope.evaluate_offline`. The default of its argument `gamma` is the
                estimator's `gamma`.

        Raises:
            NotFittedError: If the agent is not built yet.
            RuntimeError: If `pfrl_like.ope` is not imported.
        """
        if self.evaluate is None:
            raise RuntimeError("score needs pfrl_like.ope, which is not imported: import pfrl_like.ope")
        options = {"gamma": getattr(self, "gamma", 0.99), "show_progress": False, **options, "estimators": ["fqe"]}
        return float(self.evaluate(self, episodes, **options)["fqe"].value)

    observation_scaler = alias("scaler", "Another name of `scaler`, as in later versions of d3rlpy.")

    @property
    def _agent(self) -> Any:
        if self.impl is not None:
            return self.impl
        raise NotFittedError(f"{type(self).__name__} is not built yet: call {self.builders}")

    def __sklearn_is_fitted__(self) -> bool:
        return self.impl is not None

    def _observations(self, x: Any) -> Any:
        shape = None if self.observation_shape_ is None else self._stacked_shape
        return spaces.observations_for(x, shape, self.n_frames)

    def _features(self, x: Any) -> Any:
        """Return the features of observations, the input of the agent's networks, on the agent's device."""
        return self._agent.features(self._observations(x), self._agent.device)

    def _actions(self, action: Any) -> Tensor:
        """Convert actions of the data to the agent's actions. The agent's actions may be scaled."""
        actions = self._tensor(spaces.actions_for(action, self.action_size_, self.discrete_action))
        return actions if self.scaler_of_agent is None else self.scaler_of_agent.transform(actions)

    def _unscaled(self, actions: Array) -> Array:
        """Convert the agent's actions to actions of the data. The agent's actions may be scaled."""
        if self.scaler_of_agent is None:
            return actions
        unscaled: Array = self.scaler_of_agent.reverse_transform(torch.as_tensor(actions)).numpy()
        return unscaled

    def _tensor(self, values: Array) -> Tensor:
        return torch.as_tensor(values, device=self._agent.device)

    # Learning

    @accept_single_batch
    def update(self, epoch: int, total_step: int, batch: TransitionMiniBatch | Batch) -> list[float]:
        """Make one update.

        The call `update(batch)`, as in later versions of d3rlpy, returns a dict of losses. A subclass may override
        `update` with either signature. `fit` and `fit_online` then call this override with a `TransitionMiniBatch`.

        Args:
            epoch: Number of epochs so far.
            total_step: Number of updates so far.
            batch: Minibatch with stacked frames.

        Returns:
            The losses that this update computed, in the order of `loss_names`. An override may also return a dict of
            losses or None.

        Raises:
            NotFittedError: If the agent is not built yet.
            TypeError: If `batch` is not a minibatch, or has the wrong kind of actions.
            ValueError: If observations or actions have the wrong shape (for example the wrong number of frames), if the
                number of actions differs from the number of rewards, or if a discrete action does not exist.
            NonFiniteError: If a loss or an action contains NaN or infinity.
        """
        fitting = fitting_batch(self, self._agent, batch)
        self._last_update = self._learn(epoch, total_step, fitting)
        return [float(loss) for loss in self._last_update[1].values()]

    def _learn(self, epoch: int, total_step: int, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Make one update; return the TD errors, [N], and a dict of losses, on the agent's device."""
        agent = self._agent
        # The count begins at `policy_update_delay` - 1, so that the first update includes the policy.
        agent.optim_t = total_step + getattr(agent, "policy_update_delay", 1) - 1
        td_error, stats = agent.update(batch)
        return td_error, {name: stats[key] for name, key in self.loss_names.items() if key in stats}
