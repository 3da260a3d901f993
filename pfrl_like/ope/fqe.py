"""`FQE` and `DiscreteFQE`: fitted Q evaluation of a trained algorithm, with the interface of its document."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from pfrl_like import agents
from pfrl_like.agents.recorded_data import first_observation
from pfrl_like.algos.minibatches import fitting_batch
from pfrl_like.algos.shapes import (
    check_action_kind,
    check_built_for,
    shape_of_one,
    shapes_of_env,
)
from pfrl_like.batch import Batch
from pfrl_like.dataset import MDPDataset, TransitionMiniBatch
from pfrl_like.dataset.selection import Selection
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.env import as_gymnasium
from pfrl_like.errors import NotFittedError
from pfrl_like.ope.fqe_config import FQEConfig, make_critics
from pfrl_like.ope.fqe_copying import CopyingFQE
from pfrl_like.ope.fqe_fitting import FittingFQE, is_buffer
from pfrl_like.ope.fqe_judging import JudgingFQE
from pfrl_like.ope.fqe_kind import KnowingFQE, kind_told_by
from pfrl_like.ope.fqe_online import OnlineFQE
from pfrl_like.ope.fqe_saving import SavedFQE
from pfrl_like.ope.policies import ActingPolicy, NoPolicy, agent_of, evaluates_modes, lying_on, n_actions_of, policy_of
from pfrl_like.preprocessing import Scaler
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils.batch_states import FeatureExtractor, batch_states
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.device import resolve_device
from pfrl_like.utils.spaces import space_kind


class FQE(KnowingFQE, FittingFQE, OnlineFQE, JudgingFQE, CopyingFQE, SavedFQE):
    """Fitted Q evaluation: how good a trained algorithm is, learnt from recorded data.

    Whether actions are discrete is known from an estimator, and from many agents; otherwise the data or the environment
    decide that it is built for.

    What the algorithm does in evaluation is evaluated: the modes of its policy, or samples if it is an agent that does
    not `act_deterministically`; for samples of a policy alone, a module, set `fqe.agent.act_deterministically = False`
    once it is built. The algorithm is not changed. The learning itself is that of `agents.FittedQEvaluation`.

    Where the algorithm has `n_frames`, images of data and environments are stacked as it has them; `predict` and the
    like take stacked ones, and replay buffers hold single ones, as `collect` stores them. A recurrent agent is refused:
    what it does depends on more than an observation, so that minibatches have to be sequences, which
    `agents.FittedQEvaluation` learns from.

    Args:
        algo: An agent, a built estimator, or anything with `predict` of raw observations.
        config: Hyperparameters; None for an `FQEConfig` as it is by default.
        device: False for the CPU, True for the first GPU, the number of one, or a name that torch knows.
        impl: An agent to learn with, in the place of one that is built.

    Attributes:
        discrete_action: Whether actions are discrete; None as long as that is not known.
    """

    #: Whether actions have to be discrete; None for either kind.
    only: ClassVar[bool | None] = None
    #: Metrics of an update, as estimators have them.
    loss_names: ClassVar[Mapping[str, str]] = {"loss": "loss"}

    def __init__(
        self, algo: Any, config: FQEConfig | None = None, device: bool | int | str = False, impl: Any = None
    ) -> None:
        self._algo, self._config = algo, FQEConfig() if config is None else config
        self.discrete_action = kind_told_by(impl, algo) if self.only is None else self.only
        self._config.check(bool(self.discrete_action))
        self._device = _device_of(device)
        self._impl = impl
        self._shape: tuple[int, ...] | None = None
        self._action_size: int | None = None
        self.n_frames = int(getattr(algo, "n_frames", 1))
        self.scalers: dict[str, Scaler | None] = self._config.made_scalers()

    # What it is made of

    @property
    def algo(self) -> Any:
        """What is evaluated."""
        return self._algo

    @property
    def config(self) -> FQEConfig:
        """The hyperparameters."""
        return self._config

    @property
    def impl(self) -> Any:
        """The agent that learns; None before it is built."""
        return self._impl

    @property
    def agent(self) -> Any:
        """The same.

        Raises:
            NotFittedError: Before it is built.
        """
        if self._impl is None:
            raise NotFittedError(f"{type(self).__name__} is not built yet: call fit, create_impl or build_with_dataset")
        return self._impl

    @property
    def observation_shape(self) -> tuple[int, ...] | None:
        """Shape of an observation, frames not stacked; None before it is built."""
        return self._shape

    @property
    def action_size(self) -> int | None:
        """Numbers of an action, or how many discrete actions there are; None before it is built."""
        return self._action_size

    @property
    def batch_size(self) -> int:
        """Transitions of a minibatch."""
        return self._config.batch_size

    @property
    def gamma(self) -> float:
        """Discount factor per step."""
        return self._config.gamma

    @property
    def observation_scaler(self) -> Scaler | None:
        """What observations pass on their way into the critics."""
        return self.scalers["observation_scaler"]

    @property
    def action_scaler(self) -> Scaler | None:
        """What actions pass on their way into the critics."""
        return self.scalers["action_scaler"]

    @property
    def reward_scaler(self) -> Scaler | None:
        """What rewards pass before they are learnt from."""
        return self.scalers["reward_scaler"]

    @property
    def grad_step(self) -> int:
        """Updates so far, of all fittings."""
        return 0 if self._impl is None else int(self._impl.optim_t)

    @property
    def need_returns_to_go(self) -> bool:
        """Whether returns are learnt from: they are not."""
        return False

    def set_grad_step(self, grad_step: int) -> None:
        """Count updates from here on; the targets move when the count is a multiple of `target_update_interval`."""
        check_counts(least=0, grad_step=grad_step)
        self.agent.count_updates_from(grad_step)

    # Building

    def create_impl(self, observation_shape: Any, action_size: int) -> None:
        """Build the agent, of continuous actions unless it is known better; `fit` does it for the shapes of its data.

        Args:
            observation_shape: Shape of an observation, frames not stacked.
            action_size: Numbers of an action, or how many discrete actions there are.

        Raises:
            ValueError: On shapes that cannot be.
            NotFittedError: If a scaler or the algorithm is not fitted.
            TypeError: If the algorithm cannot act, or has other actions.
        """
        check_counts(action_size=action_size)
        self.take_kind(False)
        self._shape, self._action_size = shape_of_one(observation_shape), int(action_size)
        self.inner_create_impl(self._shape, self._action_size)

    def inner_create_impl(self, observation_shape: Any, action_size: int) -> None:
        """What `create_impl` calls."""
        policy: torch.nn.Module = NoPolicy()
        if self._algo is not None:
            policy = lying_on(self._device, policy_of(self._algo, action_size if self.discrete_action else None))
        features = self._features(policy)
        extract = FeatureExtractor(features.get("phi"), features.get("batch_states", batch_states))
        seen = stacked_shape(observation_shape, self.n_frames)
        shape = tuple(extract([np.zeros(seen, np.float32)], "cpu").shape[1:])
        critics, optimizer = make_critics(self._config, self.scalers, shape, action_size, bool(self.discrete_action))
        modes = self._algo is None or evaluates_modes(self._algo)
        agent_class = agents.DiscreteFittedQEvaluation if self.discrete_action else agents.FittedQEvaluation
        self._impl = agent_class(
            policy, [critics], [optimizer], ReplayBuffer(None), self.gamma, device=self._device,
            minibatch_size=self.batch_size, replay_start_size=self.batch_size, act_deterministically=modes,
            target_update_interval=self._config.target_update_interval, **features,
        )  # fmt: skip

    def _features(self, policy: Any) -> dict[str, Any]:
        """How observations reach the policy, and so the critics."""
        agent: Any = None if self._algo is None or isinstance(policy, ActingPolicy) else agent_of(self._algo)
        return {"phi": agent.phi, "batch_states": agent.batch_states} if hasattr(agent, "phi") else {}

    def build_with_dataset(self, dataset: Any) -> None:
        """Build the agent for the shapes of data, and fit the scalers to them; one that is there has to fit.

        Args:
            dataset: An `MDPDataset`, a list of episodes, or a replay buffer.

        Raises:
            TypeError: If its actions are of the other kind.
            ValueError: If it is empty, does not fit what is built, or is a replay buffer of n-step returns where there
                is a `reward_scaler`.
        """
        if self.reward_scaler is not None and (num_steps := getattr(dataset, "num_steps", 1)) > 1:
            raise ValueError(
                f"the buffer has num_steps {num_steps}, whose sums of rewards a reward_scaler of single rewards does "
                "not fit: use num_steps=1, or no reward_scaler"
            )
        if self._impl is not None and self._shape is None:  # an agent of the user's own
            return
        selection = _selection_of(dataset)
        self.take_kind(selection.discrete_action)
        check_action_kind(self, selection.discrete_action)
        shape = selection.observation_shape
        known = getattr(self._algo, "observation_shape_", None), getattr(self._algo, "action_size_", None)
        check_built_for(self._algo, *known, shape, selection.action_size)
        if self._impl is None:
            for scaler in self.scalers.values():
                if scaler is not None and not scaler.fitted:
                    scaler.fit(selection.episodes)
            size = selection.action_size
            if self.discrete_action:
                observation = first_observation(selection, 1 if is_buffer(dataset) else self.n_frames)
                size = n_actions_of(self._algo, size, observation)
            self.create_impl(shape, size)
        check_built_for(self, self._shape, self._action_size, shape, selection.action_size)

    def build_with_env(self, env: Any) -> None:
        """Build the agent for the spaces of an environment; one that is there has to fit.

        Raises:
            TypeError: If its actions are of the other kind.
            ValueError: If its actions are no vectors, or it does not fit what is built.
        """
        self.take_kind(space_kind(as_gymnasium(env).action_space) == "discrete")
        shape, size = shapes_of_env(self, env)
        if self._impl is None:
            self.create_impl(shape, size)
        check_built_for(self, self._shape, self._action_size, shape, size)

    # Learning

    def update(self, batch: TransitionMiniBatch | Batch) -> dict[str, float]:
        """Learn once.

        Args:
            batch: The minibatch.

        Returns:
            The metrics.

        Raises:
            NotFittedError: Before it is built.
            TypeError: If it is no minibatch, or has actions of the other kind.
            ValueError: If observations or actions have another shape, or there is no such discrete action.
            NonFiniteError: If a loss, or a number of an action, is NaN or infinite.
        """
        fitting = fitting_batch(self, self.agent, batch)
        return {name: float(value) for name, value in self._learn(0, self.grad_step, fitting)[1].items()}

    def _learn(self, epoch: int, total_step: int, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """`update`, as of an estimator: with the TD errors, [N], and with metrics where they are."""
        scaler = self.reward_scaler
        batch = batch if scaler is None else batch.replace(reward=scaler.transform(batch.reward))
        td_error, stats = self.agent.update(batch)
        return td_error, {name: stats[key] for name, key in self.loss_names.items()}


class DiscreteFQE(FQE):
    """`FQE` that takes discrete actions alone."""

    only: ClassVar[bool | None] = True
    #: What has actions of the other kind.
    instead: ClassVar[str] = "FQE"


def _device_of(device: bool | int | str) -> torch.device:
    if isinstance(device, bool):
        return resolve_device(0 if device else None, None)
    return resolve_device(device, None) if isinstance(device, int) else resolve_device(None, device)


def _selection_of(dataset: Any) -> Selection:
    if isinstance(dataset, Selection):
        return dataset
    if is_buffer(dataset):
        return Selection(MDPDataset.from_buffer(dataset))
    return Selection(dataset)
