"""How fitted Q evaluation acts as the policy that it evaluates, and judges states and actions."""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from pfrl_like.algos.fitting.spaces import actions_for, check_as_many, greedy, observations_for, sampled
from pfrl_like.batch import batch_of_states
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.utils.contexts import evaluating_readers, evaluating_readers_among

Array = NDArray[Any]
#: Samples of a continuous policy in each state, of which the mean value is that of the state.
_SAMPLES = 10


class JudgingFQE:
    """The actions of the evaluated policy, and values."""

    discrete_action: bool | None
    agent: Any
    n_frames: int
    _shape: tuple[int, ...] | None
    _action_size: int | None

    def predict(self, x: Any, *, action_mask: Any = None) -> Array:
        """The actions that are evaluated.

        Args:
            x: Observations, [n, ...], frames stacked.
            action_mask: True where a discrete action is allowed, [n, n_actions] or [n_actions]; None for everywhere.

        Returns:
            Actions, [n, action_size], or [n] if discrete.

        Raises:
            NotFittedError: Before it is built, or if the algorithm is not known.
            ValueError: If the observations or the mask have another shape.
            NonFiniteError: On NaN or infinity.
            TypeError: On a mask of which the algorithm cannot be told, such as something with `predict` alone.
        """
        agent, obs = self.agent, self._observations(x)
        return greedy(agent, obs, action_mask, bool(self.discrete_action), self._action_size)

    def sample_action(self, x: Any, *, action_mask: Any = None) -> Array:
        """Samples of the policy, its actions if it is deterministic; arguments, result and errors as of `predict`."""
        agent = self.agent
        features = agent.features(self._observations(x), agent.device)
        return sampled(agent.policy, features, action_mask).cpu().numpy()

    def predict_value(self, x: Any, action: Any) -> Array:
        """Values of actions, and of the policy thereafter: means over the critics.

        Args:
            x: Observations, [n, ...], frames stacked.
            action: Actions, [n, action_size], or [n] if discrete.

        Returns:
            Values, [n], of scaled rewards if there is a `reward_scaler`.

        Raises:
            NotFittedError: Before it is built.
            ValueError: If observations or actions have another shape, there are not as many of one as of the other, or
                there is no such discrete action.
            NonFiniteError: On NaN or infinity.
        """
        agent, obs = self.agent, self._observations(x)
        actions = actions_for(action, self._action_size, bool(self.discrete_action))
        check_as_many(obs, actions)
        features = agent.features(obs, agent.device)
        return self._values(features, torch.as_tensor(actions, device=agent.device)).cpu().numpy()

    def predict_state_value(self, x: Any) -> Array:
        """Values of states under the policy, [n], from 10 samples of continuous ones; otherwise as `predict_value`."""
        agent = self.agent
        if agent.act_deterministically:
            return self.predict_value(x, self.predict(x))
        obs = agent.features(self._observations(x), agent.device)
        with torch.no_grad(), evaluating_readers(agent.policy):
            distribution = agent.policy(obs)
        if self.discrete_action:
            with torch.no_grad(), evaluating_readers_among(*agent.critics):
                q = [agent.value_of(critic, batch_of_states(obs)).q_values for critic in agent.critics]
            of_states: Tensor = torch.linalg.vecdot(distribution.probs, torch.stack(q).mean(0))
            return of_states.cpu().numpy()
        drawn = [self._values(obs, distribution.sample()) for _ in range(_SAMPLES)]
        return torch.stack(drawn).mean(0).cpu().numpy()

    def _observations(self, x: Any) -> Array:
        shape = None if self._shape is None else stacked_shape(self._shape, self.n_frames)
        return observations_for(x, shape, self.n_frames)

    def _values(self, obs: Tensor, actions: Tensor) -> Tensor:
        agent = self.agent
        with torch.no_grad(), evaluating_readers_among(*agent.critics):
            mean: Tensor = agent.values_of_pairs(obs, actions).mean(0)
        return mean
