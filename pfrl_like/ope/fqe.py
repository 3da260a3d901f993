"""`FQE` and `DiscreteFQE`: fitted Q evaluation of a trained algorithm, with the interface of its document."""

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pfrl_like import agents
from pfrl_like.action_value import ActionValue
from pfrl_like.algos.fitting.minibatches import fitting_batch
from pfrl_like.algos.fitting.saving import check_form, reset_optimizers, take_from, take_states_of
from pfrl_like.algos.fitting.spaces import (
    ActionSpace,
    actions_for,
    check_action_kind,
    check_as_many,
    check_built_for,
    check_single_rewards,
    greedy,
    observations_for,
    sampled,
    shape_of_one,
    shapes_of_env,
)
from pfrl_like.batch import Batch, batch_of_states
from pfrl_like.dataset import MDPDataset, TransitionMiniBatch
from pfrl_like.dataset.selection import Selection
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.env import as_gymnasium
from pfrl_like.errors import NotFittedError
from pfrl_like.gpu import resolve_device
from pfrl_like.learning.compatibility.spaces import OneObservation
from pfrl_like.ope.episodes import first_of
from pfrl_like.ope.fqe_fitting import FittingFQE
from pfrl_like.ope.fqe_saving import FQEConfig, SavedFQE, config_of, make_critics
from pfrl_like.ope.policies import (
    ActingPolicy,
    NoPolicy,
    agent_of,
    check_fits,
    evaluates_modes,
    kind_told_by,
    lying_on,
    policy_of,
    reader_of,
    tried,
)
from pfrl_like.preprocessing import Scaler
from pfrl_like.preprocessing.features import FeatureExtractor
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils.batch_states import batch_states
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.contexts import evaluating_readers, evaluating_readers_among
from pfrl_like.utils.env_values import space_kind

Array = NDArray[Any]
#: Samples of a continuous policy in each state, of which the mean value is that of the state.
_SAMPLES = 10


class FQE(FittingFQE, SavedFQE):
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
        eval_results_: Scores by name, one for each epoch.

    Raises:
        ValueError: On hyperparameters that cannot be, or a device that is not there.
        TypeError: If `config` is no `FQEConfig`, or a number is none.
    """

    #: Whether actions have to be discrete; None for either kind.
    only: ClassVar[bool | None] = None
    #: Metrics of an update, as estimators have them.
    loss_names: ClassVar[Mapping[str, str]] = {"loss": "loss"}
    state_names: ClassVar[tuple[str, ...]] = ()

    eval_results_: dict[str, list[float]] = {}

    def __init__(
        self, algo: Any, config: FQEConfig | None = None, device: bool | int | str = False, impl: Any = None
    ) -> None:
        self._algo, self._config = algo, config_of(config)
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

    def get_action_type(self) -> ActionSpace:
        """The kind of actions; continuous ones as long as it is not known."""
        return ActionSpace.DISCRETE if self.discrete_action else ActionSpace.CONTINUOUS

    def take_kind(self, discrete_action: bool | None) -> None:
        """Have actions of a kind, unless they are of one already; None tells nothing.

        Raises:
            ValueError: If the configuration does not fit it.
        """
        if self.discrete_action is None and discrete_action is not None:
            self.config.check(discrete_action)
            self.discrete_action = discrete_action

    @contextlib.contextmanager
    def taking_kind(self, discrete_action: bool) -> Iterator[None]:
        """`take_kind`, after which a block builds; if that fails the kind is as little known as before."""
        before = self.discrete_action
        self.take_kind(discrete_action)
        try:
            yield
        except BaseException:
            self.discrete_action = before
            raise

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
        shape = shape_of_one(observation_shape)
        with self.taking_kind(False):
            self.inner_create_impl(shape, int(action_size))
        self._shape, self._action_size = shape, int(action_size)

    def inner_create_impl(self, observation_shape: Any, action_size: int) -> None:
        """What `create_impl` calls."""
        policy: torch.nn.Module = NoPolicy()
        if self._algo is not None:
            policy = lying_on(self._device, policy_of(self._algo, action_size if self.discrete_action else None))
        agent: Any = None if self._algo is None else reader_of(self._algo, policy)
        features = {"phi": agent.phi, "batch_states": agent.batch_states} if hasattr(agent, "phi") else {}
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
        data = MDPDataset.from_buffer(dataset) if hasattr(dataset, "stored_steps") else dataset
        selection = data if isinstance(data, Selection) else Selection(data)
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
        self._learnt = self._learn(0, self.grad_step, fitting)
        return {name: float(value) for name, value in self._learnt[1].items()}

    def _learn(self, epoch: int, total_step: int, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """`update`, as of an estimator: with the TD errors, [N], and with metrics where they are."""
        scaler = self.reward_scaler
        batch = batch if scaler is None else batch.replace(reward=scaler.transform(batch.reward))
        td_error, stats = self.agent.update(batch)
        return td_error, {name: stats[key] for name, key in self.loss_names.items()}

    # Values

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

    # What others have learnt

    def copy_policy_from(self, algo: Any) -> None:
        """Evaluate another algorithm with networks alike from here on: a copy of it, which files have, too.

        Raises:
            ValueError: If the networks of the policies differ, or the other agent has another `phi`, or one of the two
                algorithms chooses in a way of its own, as `BCQ` and `BEAR` do.
        """
        other, acting = algo, agent_of(algo)
        if isinstance(algo, FQE):
            other, acting = algo.agent.policy if algo.algo is None else algo.algo, algo.agent
        buffer = getattr(agent_of(other), "replay_buffer", None)
        own = copy.deepcopy(other, {id(buffer): buffer})  # which may be large, and is not looked at
        policy = policy_of(own, self.action_size if self.discrete_action else None)
        for each, asked in ((self.agent.policy, self.algo), (policy, other)):
            if isinstance(each, ActingPolicy):
                raise ValueError(
                    f"{type(asked).__name__} chooses in a way of its own, not by one network alone, which could be "
                    "copied: make an FQE of the other algorithm"
                )
        if getattr(acting, "phi", self.agent.phi) != self.agent.phi:
            raise ValueError("algo has another phi, through which the critics do not see: make an FQE of it")
        check_form(self.agent.policy, policy, "policy")
        self.agent.policy, self._algo = lying_on(self.agent.device, policy), own
        self.agent.act_deterministically = evaluates_modes(acting)

    def copy_policy_optim_from(self, algo: Any) -> None:
        """Refuse: the policy does not learn, and has no optimiser.

        Raises:
            ValueError: Always.
        """
        raise ValueError(f"{type(self).__name__} evaluates a policy that does not learn, and has no optimiser of one")

    def copy_q_function_from(self, algo: Any) -> None:
        """Take the parameters of the critics of another one, or of an agent or estimator; targets follow at once.

        Raises:
            ValueError: If it has no Q-function, or networks that differ; all of them stay as they were.
        """
        critics = [*self.agent.critics]
        theirs = nn.ModuleList(_critics_of(algo, len(critics)))
        for own in (critics, self.agent.target_critics):
            take_from(nn.ModuleList(own), theirs, "Q-function")

    def copy_q_function_optim_from(self, algo: Any) -> None:
        """Take what the optimiser of the critics keeps of earlier steps; learning rates and the like stay.

        Raises:
            ValueError: If it has no Q-function, networks that differ, or an optimiser of another class; the state stays
                as it was.
        """
        critics = [*self.agent.critics]
        pairs = [*zip(critics, _critics_of(algo, len(critics)), strict=True)]
        take_states_of(self.agent, agent_of(algo), pairs, "Q-function")

    def reset_optimizer_states(self) -> None:
        """Let the optimiser forget what it keeps of earlier steps."""
        reset_optimizers(self.agent)


class DiscreteFQE(FQE):
    """`FQE` that takes discrete actions alone."""

    only: ClassVar[bool | None] = True
    #: What has actions of the other kind.
    instead: ClassVar[str] = "FQE"


def _device_of(device: bool | int | str) -> torch.device:
    if isinstance(device, bool):
        return resolve_device(0 if device else None, None)
    return resolve_device(device, None) if isinstance(device, int) else resolve_device(None, device)


def _critics_of(algo: Any, count: int) -> list[nn.Module]:
    agent = agent_of(algo)
    critics = getattr(agent, "critics", ())
    if not critics and issubclass(getattr(agent, "value_type", object), ActionValue):
        critics = [agent.model]
    if not critics:
        raise ValueError(f"algo is a {type(algo).__name__}, which has no Q-function")
    if len(critics) != count:
        raise ValueError(f"algo has {len(critics)} Q-functions, expected {count}")
    return [*critics]
