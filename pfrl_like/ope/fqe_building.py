"""How fitted Q evaluation is built: its critics, and the policy as an agent that learns their values has it."""

from typing import Any

import numpy as np
import torch

from pfrl_like import agents
from pfrl_like.algos.fitting.spaces import (
    check_action_kind,
    check_built_for,
    check_single_rewards,
    shape_of_one,
    shapes_of_env,
)
from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.selection import Selection
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.env import as_gymnasium
from pfrl_like.learning.compatibility.recorded_data import OneObservation
from pfrl_like.ope.fqe_config import FQEConfig, make_critics
from pfrl_like.ope.fqe_fitting import is_buffer
from pfrl_like.ope.fqe_kind import KnowingFQE
from pfrl_like.ope.policies import ActingPolicy, NoPolicy, agent_of, evaluates_modes, lying_on, policy_of
from pfrl_like.ope.policy_actions import check_fits, tried
from pfrl_like.ope.rows import first_of
from pfrl_like.preprocessing import Scaler
from pfrl_like.preprocessing.features import FeatureExtractor
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils.batch_states import batch_states
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.spaces import space_kind


class BuildingFQE(KnowingFQE):
    """The agent that learns, made for shapes, for data or for an environment."""

    n_frames: int
    scalers: dict[str, Scaler | None]
    _algo: Any
    _config: FQEConfig
    _device: torch.device
    _impl: Any
    _shape: tuple[int, ...] | None
    _action_size: int | None

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
        shape = shape_of_one(observation_shape)
        with self.taking_kind(False):
            self.inner_create_impl(shape, int(action_size))
        self._shape, self._action_size = shape, int(action_size)

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
        rows = self._config.batch_size
        modes = self._algo is None or evaluates_modes(self._algo)
        agent_class = agents.DiscreteFittedQEvaluation if self.discrete_action else agents.FittedQEvaluation
        self._impl = agent_class(
            policy, [critics], [optimizer], ReplayBuffer(None), self._config.gamma, device=self._device,
            minibatch_size=rows, replay_start_size=rows, act_deterministically=modes,
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
            TypeError: If its actions are of another kind than those of the critics or of the algorithm.
            ValueError: If it is empty, does not fit what is built or evaluated, or is a replay buffer of n-step returns
                where there is a `reward_scaler`.
            NotFittedError: If the algorithm is an estimator that is not built yet.
        """
        check_single_rewards(self.scalers["reward_scaler"], dataset)
        if self._impl is not None and self._shape is None:  # an agent of the user's own
            return
        selection = _selection_of(dataset)
        shape, size = selection.observation_shape, selection.action_size
        with self.taking_kind(selection.discrete_action):
            check_action_kind(self, selection.discrete_action)
            check_fits(self._algo, selection.discrete_action, shape, size)
            n_actions = self._tried_size(first_of(selection, self.n_frames), size)
            if self._impl is None:
                for scaler in self.scalers.values():
                    if scaler is not None and not scaler.fitted:
                        scaler.fit(selection.episodes)
                self.create_impl(shape, n_actions)
        check_built_for(self, self._shape, self._action_size, shape, size)

    def build_with_env(self, env: Any) -> None:
        """Build the agent for the spaces of an environment; one that is there has to fit.

        Raises:
            TypeError: If its actions are of another kind than those of the critics or of the algorithm.
            ValueError: If its actions are no vectors, or it does not fit what is built or evaluated.
            NotFittedError: If the algorithm is an estimator that is not built yet.
        """
        adapted = as_gymnasium(env)
        with self.taking_kind(space_kind(adapted.action_space) == "discrete"):
            shape, size = shapes_of_env(self, env)
            seen = np.zeros(stacked_shape(shape, self.n_frames), adapted.observation_space.dtype)
            self._tried_size(OneObservation(seen), size, env=True)
            if self._impl is None:
                self.create_impl(shape, size)
        check_built_for(self, self._shape, self._action_size, shape, size)

    def _tried_size(self, observation: OneObservation, size: int, env: bool = False) -> int:
        """Numbers of an action, or how many there are, as of `tried`, which refuses an algorithm of other ones."""
        if self._algo is None:
            return size
        return tried(self._algo, observation, bool(self.discrete_action), size, env).size


def _selection_of(dataset: Any) -> Selection:
    if isinstance(dataset, Selection):
        return dataset
    if is_buffer(dataset):
        return Selection(MDPDataset.from_buffer(dataset))
    return Selection(dataset)
