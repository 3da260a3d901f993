"""`Estimator`, the base of estimators: hyperparameters, from which an agent is built, and predictions of the agent."""

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
from pfrl_like.batch import Batch
from pfrl_like.dataset import TransitionMiniBatch
from pfrl_like.encoders import Encoder, make_encoder
from pfrl_like.errors import NotFittedError
from pfrl_like.gpu import Device, resolve_device
from pfrl_like.learning.model_outputs import allowed
from pfrl_like.preprocessing import make_scaler
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils.checks import check_counts, renamed
from pfrl_like.utils.contexts import evaluating_readers, evaluating_readers_among
from pfrl_like.utils.env_values import mask_keyword

Array = NDArray[Any]


def batch_alone(update: Any) -> Any:
    """Decorator of `update` that also accepts a minibatch alone; `update` then returns the losses by name."""

    @functools.wraps(update)
    def update_by(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) + len(kwargs) != 1:
            return update(self, *args, **kwargs)
        (batch,) = [*args, *kwargs.values()]
        agent = self._agent
        so_far = max(0, agent.optim_t + 1 - getattr(agent, "policy_update_delay", 1))
        epoch, total_step = self._updating or (0, so_far)
        losses = update(self, epoch, total_step, batch)
        return dict(zip(self._learnt[1], losses, strict=True))

    return update_by


class Estimator(Fitting, OnlineFitting, Saving, Retuning, Spaces, Hyperparameters):
    """Base of estimators.

    The constructor only stores the hyperparameters. `fit` (or `create_impl`) builds the agent and stores it as `impl`.
    Every further `fit` or `fit_online` continues its training with the current hyperparameters. The clone of an
    estimator is not built.

    Args:
        batch_size: Number of transitions per minibatch.
        n_frames: Number of consecutive images that are stacked along the channel axis into one observation.
        use_batch_norm: True to apply batch normalisation after each layer of the networks.
        use_gpu: Device to use: False for the CPU, True for the first GPU, the index of a GPU, or a
            `pfrl_like.gpu.Device`.
        scaler: Scaler of the observations: "pixel", "min_max", "standard", or a `Scaler`. `observation_scaler` is
            another name of this argument. The first `fit` fits the scalers of observations, actions and rewards to its
            episodes, except for scalers that are already fitted.
        action_scaler: Scaler of continuous actions: "min_max", "standard", or a `Scaler`. The agent `impl` is trained
            with scaled actions and returns scaled actions. "min_max" scales actions to [-1, 1], the output range of the
            policies. The methods of the estimator, explorers and replay buffers use unscaled actions. `fit_online` fits
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
        scaler: The scaler as an object, also if it is given by name; the fitted one once the agent is built. The same
            holds for `action_scaler` and `reward_scaler`.
        augmentation: The `AugmentationPipeline` made from the argument.
        scaler_: The fitted scaler; None before the agent is built. The same holds for `action_scaler_` and
            `reward_scaler_`.
        eval_results_: Scores by name, one for each epoch.
        observation_shape_: Shape of one observation, frames not stacked; None before the agent is built.
        action_size_: Size of a continuous action, or number of discrete actions; None before the agent is built.
    """

    #: Names of an update's metrics, each with the name of the agent's statistic.
    loss_names: ClassVar[Mapping[str, str]] = {}
    #: Whether it learns to predict next observations, not values alone; transitions without a recorded one are skipped.
    learns_next_observations: ClassVar[bool] = False
    #: Attributes of the agent that are metrics of an epoch.
    state_names: ClassVar[tuple[str, ...]] = ()
    #: Whether the agent learns and acts with scaled actions, if there is an `action_scaler`.
    acts_scaled: ClassVar[bool] = True
    spellings: ClassVar[Mapping[str, str]] = {"observation_scaler": "scaler"}
    later_names: ClassVar[Mapping[str, str]] = LATER_NAMES
    #: Hyperparameters that errors call by another name.
    names_in_errors: ClassVar[Mapping[str, str]] = {}
    #: `pfrl_like.ope.evaluate_offline`; set by `pfrl_like.ope`, a higher layer than the estimators.
    evaluate: ClassVar[Callable[..., Mapping[str, Any]] | None] = None
    made_by: ClassVar[Mapping[str, Any]] = {
        **{name: functools.partial(make_scaler, column=column) for name, column in spaces.SCALERS.items()},
        "augmentation": pipeline_of,
    }

    batch_size: int = 100
    n_frames: int = 1
    use_batch_norm: bool = False
    use_gpu: Any = False
    scaler: Any = None
    action_scaler: Any = None
    reward_scaler: Any = None
    augmentation: Any = []
    n_augmentations: int = 1
    encoder_params: Any = {}
    dynamics: Any = None
    n_epochs: int | None = None
    impl: Any = None

    #: The agent that the user gave as `impl`.
    _given_impl: Any = None
    #: TD errors and losses of the last `update`.
    _learnt: Any = None
    #: Numbers of epochs and updates so far, while an overridden `update` is called.
    _updating: tuple[int, int] | None = None

    scaler_: Any = None
    action_scaler_: Any = None
    reward_scaler_: Any = None
    eval_results_: dict[str, list[float]] = {}

    def set_params(self, **params: Any) -> Self:
        """Set hyperparameters; unknown ones are ignored with a warning that names the nearest.

        Hyperparameters that can change in a built agent, such as learning rates, `gamma` and `tau`, change in it at
        once. Those that are assigned as attributes take effect in the agent at the next `fit`.

        Returns:
            The object itself.

        Raises:
            ValueError: On a value out of range, or on a hyperparameter that can no longer change because the agent is
                built, such as `n_critics`; all hyperparameters stay unchanged.
            TypeError: On a value of a wrong type; all hyperparameters stay unchanged.
        """
        before = dict(vars(self))
        try:
            super().set_params(**params)
            self.use_gpu = Device.of(self.use_gpu)  # copies of a `Device` can move to another GPU
            if "impl" in params:
                self._given_impl, self._built_with = self.impl, self.get_params(deep=False)
            self.retune()
        except (TypeError, ValueError):
            vars(self).update(before)
            raise
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All hyperparameters by name; the constructor makes an equal estimator of them, not built.

        Args:
            deep: Whether the values are copies.
        """
        params = super().get_params(deep=False) | {"impl": self._given_impl}
        return copy.deepcopy(params) if deep else params

    def __sklearn_clone__(self) -> Self:
        """An equal estimator that is not built; its `dynamics` model is a copy with the same parameters."""
        return type(self)(**self.get_params())

    # Building

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        """Make the agent for observations of this shape, frames stacked, and actions of this size."""
        raise NotImplementedError(f"{type(self).__name__} builds no agent")

    def create_impl(self, observation_shape: Any, action_size: int) -> None:
        """Build the agent; `fit` and `fit_online` call it with the shapes of their data.

        Args:
            observation_shape: Shape of one observation, frames not stacked.
            action_size: Size of a continuous action, or number of discrete actions.

        Raises:
            ValueError: On a hyperparameter or a shape out of range, with the value got.
            TypeError: On a hyperparameter or a shape of a wrong type, with the value got.
        """
        shape = spaces.shape_of_one(observation_shape)
        check_counts(action_size=action_size)
        check_ranges(self)
        spaces.take_scalers(self, spaces.made_scalers(self, fitted=True))
        self.observation_shape_, self.action_size_ = shape, int(action_size)
        self.impl = self._build_agent(self._stacked_shape, self.action_size_)
        self.impl.augment = self._augment()
        self._built_with = self.get_params(deep=False)

    def _augment(self) -> Callable[[Batch], Batch] | None:
        """The function that scales and augments minibatches; None if there is nothing to do."""
        check_counts(n_augmentations=self.n_augmentations)
        pipeline = pipeline_of(self.augmentation)
        augment = BatchAugmentation(pipeline, self.n_augmentations, self.scaler_) if len(pipeline) else None
        if self.scaler_of_agent is None and self.reward_scaler_ is None:
            return augment
        return spaces.BatchScaling(self.scaler_of_agent, self.reward_scaler_, augment)

    @property
    def scaler_of_agent(self) -> Any:
        """The fitted scaler between actions of the data and of the agent; None if they are the same."""
        return self.action_scaler_ if self.acts_scaled else None

    def fit_scaler(self, episodes: Any) -> None:
        """Make the scalers and fit unfitted ones to episodes; `fit` calls it before it builds the agent."""
        made = spaces.made_scalers(self)
        for scaler in made.values():
            if scaler is not None and not scaler.fitted:
                scaler.fit(episodes)
        spaces.take_scalers(self, made)

    def _encoder(self, observation_shape: tuple[int, ...], action_size: int = 0) -> Encoder:
        return make_encoder(
            observation_shape, self.encoder_params, action_size=action_size, use_batch_norm=self.use_batch_norm,
            scaler=self.scaler_,
        )  # fmt: skip

    def _common(self) -> dict[str, Any]:
        """Arguments of all agents; offline, minibatches come from the data and the replay buffer stays empty."""
        return {
            "replay_buffer": ReplayBuffer(None), "device": self._device, "minibatch_size": self.batch_size,
            "replay_start_size": self.batch_size,
        }  # fmt: skip

    @property
    def _device(self) -> torch.device:
        device = Device.of(self.use_gpu)
        return resolve_device(None if device is None else device.get_id())

    # Predictions

    def predict(self, x: Any, *, action_mask: Any = None) -> Array:
        """Greedy actions.

        Args:
            x: Observations, [n, ...], frames stacked.
            action_mask: True where a discrete action is allowed, [n, n_actions] or [n_actions]; None allows all.

        Returns:
            Actions, [n, action_size], or [n] if discrete.

        Raises:
            NotFittedError: Before the agent is built.
            ValueError: If the observations or the mask have another shape.
            NonFiniteError: On NaN or infinity.
            TypeError: On a mask of continuous actions.
        """
        agent, obs, size = self._agent, self._observations(x), self.action_size_
        if not len(obs) and size is not None:
            return np.zeros(0, np.int64) if self.discrete_action else np.zeros((0, size), np.float32)
        with agent.eval_mode():
            return self._unscaled(np.asarray(agent.batch_act(obs, **mask_keyword(action_mask))))

    def sample_action(self, x: Any, *, action_mask: Any = None) -> Array:
        """Samples of the policy, greedy actions without one; arguments, result and errors are those of `predict`."""
        policy = getattr(self._agent, "policy", None)
        if policy is None:
            return self.predict(x, **mask_keyword(action_mask))
        with torch.no_grad(), evaluating_readers(policy):
            drawn = allowed(policy(self._features(x)), action_mask).sample()
        return self._unscaled(drawn.cpu().numpy())

    def predict_value(self, x: Any, action: Any, with_std: bool = False) -> Any:
        """Values of actions, means over the critics.

        Args:
            x: Observations, [n, ...], frames stacked.
            action: Actions, [n, action_size], or [n] if discrete.
            with_std: Whether to return the standard deviations over the critics, too.

        Returns:
            Values, [n]; with `with_std` a pair of values and standard deviations over the critics, [n].

        Raises:
            NotFittedError: Before the agent is built.
            ValueError: If observations or actions have another shape.
        """
        agent, obs, actions = self._agent, self._features(x), self._actions(action)
        spaces.check_as_many(obs, actions)
        networks = [
            part for name in agent.saved_attributes if isinstance(part := getattr(agent, name), torch.nn.Module)
        ]
        with torch.no_grad(), evaluating_readers_among(*networks):
            values = agent.values_of_pairs(obs, actions)
        mean = values.mean(0).cpu().numpy()
        return (mean, values.std(0, correction=0).cpu().numpy()) if with_std else mean

    def __getstate__(self) -> dict[str, Any]:
        evaluate = {} if self.evaluate is None else {"evaluate": self.evaluate}  # for `score` in another process
        return {**vars(self), **evaluate}

    @property
    def evaluate_offline(self) -> Never:
        """Raises an AttributeError that names the function `pfrl_like.ope.evaluate_offline`."""
        raise AttributeError(
            "estimators have no evaluate_offline; call pfrl_like.ope.evaluate_offline(estimator, dataset, "
            "gamma=estimator.gamma)"
        )

    def score(self, episodes: Any, y: Any = None, **options: Any) -> float:
        """The discounted return estimated by fitted Q evaluation; scikit-learn's default score.

        Args:
            episodes: A dataset or a list of episodes.
            y: Ignored.
            options: Further arguments of `pfrl_like.ope.evaluate_offline`; the default of `gamma` is the estimator's.

        Raises:
            NotFittedError: Before the agent is built.
            RuntimeError: If `pfrl_like.ope` has not been imported.
        """
        if self.evaluate is None:
            raise RuntimeError(
                "score is an estimate of pfrl_like.ope, which has not been imported: import pfrl_like.ope"
            )
        options = {"gamma": getattr(self, "gamma", 0.99), "show_progress": False, **options, "estimators": ["fqe"]}
        return float(self.evaluate(self, episodes, **options)["fqe"].value)

    observation_scaler = renamed("scaler", "`scaler`, as later versions of d3rlpy call it.")

    @property
    def _agent(self) -> Any:
        if self.impl is None:
            raise NotFittedError(
                f"{type(self).__name__} is not built yet: call fit, fit_online, create_impl or load_model"
            )
        return self.impl

    def __sklearn_is_fitted__(self) -> bool:
        return self.impl is not None

    def _observations(self, x: Any) -> Array:
        return spaces.observations_for(
            x, None if self.observation_shape_ is None else self._stacked_shape, self.n_frames
        )

    def _features(self, x: Any) -> Any:
        """Observations as the input of the agent's networks, on its device."""
        return self._agent.features(self._observations(x), self._agent.device)

    def _actions(self, action: Any) -> Tensor:
        """Actions of the data, scaled for the agent."""
        actions = self._tensor(spaces.actions_for(action, self.action_size_, self.discrete_action))
        return actions if self.scaler_of_agent is None else self.scaler_of_agent.transform(actions)

    def _unscaled(self, actions: Array) -> Array:
        """Actions of the agent, scaled back to those of the data."""
        if self.scaler_of_agent is None:
            return actions
        unscaled: Array = self.scaler_of_agent.reverse_transform(torch.as_tensor(actions)).numpy()
        return unscaled

    def _tensor(self, values: Array) -> Tensor:
        return torch.as_tensor(values, device=self._agent.device)

    # Learning

    @batch_alone
    def update(self, epoch: int, total_step: int, batch: TransitionMiniBatch | Batch) -> list[float]:
        """Make one update; if a subclass overrides it, `fit` and `fit_online` call it with a `TransitionMiniBatch`.

        It may also be called, and overridden, as `update(batch)`, as in later versions of d3rlpy; it then returns the
        losses by name.

        Args:
            epoch: Number of epochs so far.
            total_step: Number of updates so far.
            batch: Minibatch, frames stacked.

        Returns:
            The losses, in the order of `loss_names`, without those that this update did not compute. An overriding
            method may also return a dict of losses by name, or None.

        Raises:
            NotFittedError: Before the agent is built.
            TypeError: If `batch` is no minibatch, or has actions of the other kind.
            ValueError: If observations or actions have another shape (such as another number of frames), if their
                number differs from that of the rewards, or if a discrete action does not exist.
            NonFiniteError: If a loss, or a number of an action, is NaN or infinite.
        """
        fitting = fitting_batch(self, self._agent, batch)
        self._learnt = self._learn(epoch, total_step, fitting)
        return [float(loss) for loss in self._learnt[1].values()]

    def _learn(self, epoch: int, total_step: int, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Make one update and return the TD errors, [N], and the losses by name, on the agent's device."""
        agent = self._agent
        agent.optim_t = total_step + getattr(agent, "policy_update_delay", 1) - 1  # the policy learns at once
        td_error, stats = agent.update(batch)
        return td_error, {name: stats[key] for name, key in self.loss_names.items() if key in stats}
