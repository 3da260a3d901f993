"""`FQE` and `DiscreteFQE`: fitted Q evaluation of a trained algorithm, with d3rlpy's interface."""

import copy
import os
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pfrl_like import agents
from pfrl_like.action_value import ActionValue
from pfrl_like.algos.fitting import saving, spaces
from pfrl_like.algos.fitting.base import ESTIMATORS, Estimator
from pfrl_like.algos.fitting.minibatches import fitting_batch
from pfrl_like.algos.fitting.networks import adam, make_q_function
from pfrl_like.batch import Batch, batch_of_states
from pfrl_like.dataset import MDPDataset, TransitionMiniBatch
from pfrl_like.dataset.selection import Selection
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.encoders import make_encoder
from pfrl_like.env import as_gymnasium
from pfrl_like.errors import NotFittedError
from pfrl_like.ope import policies
from pfrl_like.ope.episodes import first_of
from pfrl_like.ope.fqe_fitting import FittingFQE
from pfrl_like.ope.fqe_saving import SAVED, SCALERS, ActionScaled, FQEConfig, config_of, device_of
from pfrl_like.preprocessing import Scaler
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.contexts import evaluating_readers, evaluating_readers_among
from pfrl_like.utils.env_values import space_kind

Array = NDArray[Any]
#: Number of samples of a continuous policy whose mean value is the value of a state.
_SAMPLES = 10


class FQE(FittingFQE):
    """Fitted Q evaluation: learns the values of a trained algorithm's actions from recorded data.

    Estimators and many agents tell whether actions are discrete; for other algorithms the data or the environment that
    the `FQE` is built for decide it.

    The algorithm is evaluated as it acts in evaluation: by the modes of its policy, or by samples if it is an agent
    without `act_deterministically`. To evaluate samples of a policy that is a module, set
    `fqe.agent.act_deterministically = False` once the agent is built. The algorithm is not changed. The agent that
    learns is an `agents.FittedQEvaluation`.

    If the algorithm has `n_frames`, images of data and environments are stacked accordingly. `predict` and similar
    methods take stacked images; replay buffers hold single ones, as `collect` stores them. Recurrent agents are an
    error: their actions depend on more than an observation, so that minibatches have to be sequences, which
    `agents.FittedQEvaluation` learns from.

    Args:
        algo: An agent, a built estimator, or anything with `predict` of raw observations.
        config: Hyperparameters; None for an `FQEConfig` with its defaults.
        device: False for the CPU, True for the first GPU, the number of a GPU, or a name that torch knows.
        impl: An agent that is used instead of one built by the `FQE`; None for none.

    Attributes:
        algo: The evaluated algorithm.
        config: The hyperparameters.
        impl: The agent that learns; None before it is built.
        observation_shape: Shape of one observation, frames not stacked; None before the agent is built.
        action_size: Size of a continuous action, or number of discrete actions; None before the agent is built.
        observation_scaler: Scaler that is applied to the critics' observations; None for none.
        action_scaler: Scaler that is applied to the critics' actions; None for none.
        reward_scaler: Scaler of the rewards that are learnt from; None for none.
        need_returns_to_go: Whether returns are learnt from; always False.
        discrete_action: Whether actions are discrete; None as long as it is not known.
        eval_results_: Scores by name, one for each epoch.

    Raises:
        ValueError: On hyperparameters out of range, or a device that does not exist.
        TypeError: If `config` is no `FQEConfig`, or a number is none.
    """

    #: Whether actions have to be discrete; None for either kind.
    only: ClassVar[bool | None] = None
    #: Names of an update's metrics, each with the name of the agent's statistic.
    loss_names: ClassVar[Mapping[str, str]] = {"loss": "loss"}
    state_names: ClassVar[tuple[str, ...]] = ()
    need_returns_to_go: ClassVar[bool] = False

    observation_shape: tuple[int, ...] | None = None
    action_size: int | None = None
    observation_scaler: Scaler | None
    action_scaler: Scaler | None
    reward_scaler: Scaler | None
    eval_results_: dict[str, list[float]] = {}

    def __init__(
        self, algo: Any, config: FQEConfig | None = None, device: bool | int | str = False, impl: Any = None
    ) -> None:
        self.algo, self.config, self.impl = algo, config_of(config), impl
        self.discrete_action = policies.kind_told_by(impl, algo) if self.only is None else self.only
        self.config.check(bool(self.discrete_action))
        self._device = device_of(device)
        self.n_frames = int(getattr(algo, "n_frames", 1))
        vars(self).update(self.config.made_scalers())

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        SAVED[cls.__name__] = cls

    # Parts

    @property
    def agent(self) -> Any:
        """Agent that learns.

        Raises:
            NotFittedError: Before the agent is built.
        """
        if self.impl is None:
            raise NotFittedError(f"{type(self).__name__} is not built yet: call fit, create_impl or build_with_dataset")
        return self.impl

    @property
    def scalers(self) -> dict[str, Scaler | None]:
        """Scalers by name."""
        return {name: getattr(self, name) for name in SCALERS}

    batch_size = property(attrgetter("config.batch_size"), doc="Transitions of a minibatch.")
    gamma = property(attrgetter("config.gamma"), doc="Discount factor per step.")

    @property
    def grad_step(self) -> int:
        """Number of updates so far, over all calls of `fit`."""
        return 0 if self.impl is None else int(self.impl.optim_t)

    def set_grad_step(self, grad_step: int) -> None:
        """Set the count of updates; targets are updated when it is a multiple of `target_update_interval`."""
        check_counts(least=0, grad_step=grad_step)
        self.agent.count_updates_from(grad_step)

    def get_action_type(self) -> spaces.ActionSpace:
        """The kind of actions; continuous as long as it is not known."""
        return spaces.ActionSpace.DISCRETE if self.discrete_action else spaces.ActionSpace.CONTINUOUS

    # Building

    def create_impl(self, observation_shape: Any, action_size: int) -> None:
        """Build the agent, for continuous actions unless another kind is known; `fit` calls it with its data's shapes.

        Args:
            observation_shape: Shape of one observation, frames not stacked.
            action_size: Size of a continuous action, or number of discrete actions.

        Raises:
            ValueError: On invalid shapes.
            NotFittedError: If a scaler or the algorithm is not fitted.
            TypeError: If the algorithm cannot act, or has other actions.
        """
        check_counts(action_size=action_size)
        shape = spaces.shape_of_one(observation_shape)
        self.inner_create_impl(shape, int(action_size))
        self.discrete_action = bool(self.discrete_action)
        self.observation_shape, self.action_size = shape, int(action_size)

    def inner_create_impl(self, observation_shape: Any, action_size: int) -> None:
        """Build the agent; called by `create_impl`, with the same arguments."""
        discrete, config = bool(self.discrete_action), self.config
        for name, scaler in self.scalers.items():
            if scaler is not None and not scaler.fitted:
                told = "which has no statistics: build_with_dataset or fit does it"
                raise NotFittedError(f"{name} is {scaler!r}, {told}")
        policy: nn.Module = policies.NoPolicy()
        if self.algo is not None:
            policy = policies.lying_on(self._device, policies.policy_of(self.algo, action_size if discrete else None))
        agent = policies.reader_of(self.algo, policy)
        features = {"phi": agent.phi, "batch_states": agent.batch_states} if hasattr(agent, "phi") else {}
        one = np.zeros((1, *stacked_shape(observation_shape, self.n_frames)), np.float32)
        shape = tuple(policies.features_of(agent, one).shape[1:])

        def encoder() -> Any:
            of_pairs, scaler = 0 if discrete else action_size, self.observation_scaler
            made = make_encoder(shape, config.encoder_params, action_size=of_pairs, scaler=scaler)
            return made if self.action_scaler is None else ActionScaled(made, self.action_scaler)

        critics = make_q_function(
            config.q_func_type, encoder, action_size if discrete else 1, n_critics=config.n_critics, pool="mean"
        )
        agent_class = agents.DiscreteFittedQEvaluation if discrete else agents.FittedQEvaluation
        self.impl = agent_class(
            policy, [critics], [adam(critics, config.learning_rate, 1e-8)], ReplayBuffer(None), self.gamma,
            device=self._device, minibatch_size=self.batch_size, replay_start_size=self.batch_size,
            act_deterministically=self.algo is None or policies.evaluates_modes(self.algo),
            target_update_interval=config.target_update_interval, **features,
        )  # fmt: skip

    def build_with_dataset(self, dataset: Any) -> None:
        """Build the agent for the shapes of data and fit the scalers to them, or check that a built agent fits.

        Args:
            dataset: An `MDPDataset`, a list of episodes, or a replay buffer.

        Raises:
            TypeError: If its actions are of another kind than those of the critics or of the algorithm.
            ValueError: If it is empty, its shapes differ from those of the agent or the algorithm, or it is a replay
                buffer of n-step returns and there is a `reward_scaler`.
            NotFittedError: If the algorithm is an estimator that is not built yet.
        """
        spaces.check_single_rewards(self.reward_scaler, dataset)
        if self.impl is not None and self.observation_shape is None:  # an agent of the user
            return
        data = MDPDataset.from_buffer(dataset) if hasattr(dataset, "stored_steps") else dataset
        selection = data if isinstance(data, Selection) else Selection(data)
        discrete, shape, size = selection.discrete_action, selection.observation_shape, selection.action_size
        spaces.check_action_kind(self, discrete)
        policies.check_fits(self.algo, discrete, shape, size)
        self._build_for(discrete, shape, size, first_of(selection, self.n_frames), selection.episodes)

    def build_with_env(self, env: Any) -> None:
        """Build the agent for the spaces of an environment, or check that a built agent fits.

        Raises:
            TypeError: If its actions are of another kind than those of the critics or of the algorithm.
            ValueError: If its actions are no vectors, or its shapes differ from those of the agent or the algorithm.
            NotFittedError: If the algorithm is an estimator that is not built yet.
        """
        adapted = as_gymnasium(env)
        shape, size = spaces.shapes_of_env(self, env)
        seen = np.zeros(stacked_shape(shape, self.n_frames), adapted.observation_space.dtype)
        self._build_for(space_kind(adapted.action_space) == "discrete", shape, size, seen, None)

    def _build_for(self, discrete: bool, shape: Any, size: int, seen: Any, episodes: Any) -> None:
        """Build the agent, or check that a built agent and the algorithm fit; then the kind of actions is known.

        Args:
            discrete: Whether actions are discrete.
            shape: Shape of one observation, frames not stacked.
            size: Size of a continuous action, or number of discrete actions; in data it may be smaller.
            seen: An observation for a dry run of the algorithm.
            episodes: Episodes that scalers are fitted to; None for an environment.
        """
        self.config.check(discrete)
        n_actions, known = size, self.discrete_action
        if self.algo is not None:
            n_actions = policies.tried(self.algo, seen, discrete, size, env=episodes is None).size
        self.discrete_action = discrete
        try:
            if self.impl is None:
                for scaler in self.scalers.values():
                    if scaler is not None and not scaler.fitted and episodes is not None:
                        scaler.fit(episodes)
                self.create_impl(shape, n_actions)
            spaces.check_built_for(self, self.observation_shape, self.action_size, shape, size)
        except BaseException:
            self.discrete_action = known
            raise

    # Learning

    def update(self, batch: TransitionMiniBatch | Batch) -> dict[str, float]:
        """Make one update.

        Args:
            batch: The minibatch.

        Returns:
            The metrics.

        Raises:
            NotFittedError: Before the agent is built.
            TypeError: If `batch` is no minibatch, or has actions of the other kind.
            ValueError: If observations or actions have another shape, or a discrete action does not exist.
            NonFiniteError: If a loss, or a number of an action, is NaN or infinite.
        """
        fitting = fitting_batch(self, self.agent, batch)
        self._learnt = self._learn(0, self.grad_step, fitting)
        return {name: float(value) for name, value in self._learnt[1].items()}

    def _learn(self, epoch: int, total_step: int, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Make one update and return the TD errors, [N], and the metrics by name, on the agent's device."""
        scaler = self.reward_scaler
        batch = batch if scaler is None else batch.replace(reward=scaler.transform(batch.reward))
        td_error, stats = self.agent.update(batch)
        return td_error, {name: stats[key] for name, key in self.loss_names.items()}

    # Values

    def predict(self, x: Any, *, action_mask: Any = None) -> Array:
        """Actions of the evaluated policy: its modes, or samples if samples are evaluated.

        Args:
            x: Observations, [n, ...], frames stacked.
            action_mask: True where a discrete action is allowed, [n, n_actions] or [n_actions]; None allows all.

        Returns:
            Actions, [n, action_size], or [n] if discrete.

        Raises:
            NotFittedError: Before the agent is built, or if the algorithm is not known.
            ValueError: If the observations or the mask have another shape.
            NonFiniteError: On NaN or infinity.
            TypeError: On a mask that the algorithm cannot take, such as an object with `predict` alone.
        """
        agent, obs = self.agent, self._observations(x)
        return spaces.greedy(agent, obs, action_mask, bool(self.discrete_action), self.action_size)

    def sample_action(self, x: Any, *, action_mask: Any = None) -> Array:
        """Samples of the evaluated policy; arguments, result and errors are those of `predict`."""
        agent = self.agent
        features = agent.features(self._observations(x), agent.device)
        return spaces.sampled(agent.policy, features, action_mask).cpu().numpy()

    def predict_value(self, x: Any, action: Any) -> Array:
        """Values of actions that are followed by the policy: means over the critics.

        Args:
            x: Observations, [n, ...], frames stacked.
            action: Actions, [n, action_size], or [n] if discrete.

        Returns:
            Values, [n], of scaled rewards if there is a `reward_scaler`.

        Raises:
            NotFittedError: Before the agent is built.
            ValueError: If observations or actions have another shape, their numbers differ, or a discrete action does
                not exist.
            NonFiniteError: On NaN or infinity.
        """
        agent, obs = self.agent, self._observations(x)
        actions = spaces.actions_for(action, self.action_size, bool(self.discrete_action))
        spaces.check_as_many(obs, actions)
        features = agent.features(obs, agent.device)
        return self._values(features, torch.as_tensor(actions, device=agent.device)).cpu().numpy()

    def predict_state_value(self, x: Any) -> Array:
        """Values of states under the policy, [n]; for samples of continuous actions the mean over 10 of them.

        Argument and errors are those of `predict_value`.
        """
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
        shape = None if self.observation_shape is None else stacked_shape(self.observation_shape, self.n_frames)
        return spaces.observations_for(x, shape, self.n_frames)

    def _values(self, obs: Tensor, actions: Tensor) -> Tensor:
        agent = self.agent
        with torch.no_grad(), evaluating_readers_among(*agent.critics):
            mean: Tensor = agent.values_of_pairs(obs, actions).mean(0)
        return mean

    # Copying from others

    def copy_policy_from(self, algo: Any) -> None:
        """Evaluate a copy of another algorithm with the same architecture from now on; files contain it, too.

        Raises:
            ValueError: If the networks of the policies differ, the other agent has another `phi`, or one of the two
                algorithms does not act by its policy network alone, such as `BCQ` and `BEAR`.
        """
        other, acting = algo, policies.agent_of(algo)
        if isinstance(algo, FQE):
            other = acting.policy if algo.algo is None else algo.algo
        buffer = getattr(policies.agent_of(other), "replay_buffer", None)
        own = copy.deepcopy(other, {id(buffer): buffer})  # not copied: it may be large, and is not used
        policy = policies.policy_of(own, self.action_size if self.discrete_action else None)
        for each, asked in ((self.agent.policy, self.algo), (policy, other)):
            if isinstance(each, policies.ActingPolicy):
                raise ValueError(
                    f"{type(asked).__name__} chooses in a way of its own, not by one network alone, which could be "
                    "copied: make an FQE of the other algorithm"
                )
        if getattr(acting, "phi", self.agent.phi) != self.agent.phi:
            raise ValueError("algo has another phi, through which the critics do not see: make an FQE of it")
        saving.check_form(self.agent.policy, policy, "policy")
        self.agent.policy, self.algo = policies.lying_on(self.agent.device, policy), own
        self.agent.act_deterministically = policies.evaluates_modes(acting)

    def copy_policy_optim_from(self, algo: Any) -> None:
        """Raise an error: the evaluated policy does not learn and has no optimiser.

        Raises:
            ValueError: Always.
        """
        raise ValueError(f"{type(self).__name__} evaluates a policy that does not learn, and has no optimiser of one")

    def copy_q_function_from(self, algo: Any) -> None:
        """Copy the parameters of the critics of another `FQE`, an agent or an estimator to the critics and targets.

        Raises:
            ValueError: If `algo` has no Q-function, or the networks differ; nothing is copied.
        """
        ours = [self.agent.critics, self.agent.target_critics]
        theirs = _critics_of(algo, len(ours[0]))
        pairs = [pair for networks in ours for pair in zip(networks, theirs, strict=True)]
        saving.copy_networks(pairs, "Q-function")

    def copy_q_function_optim_from(self, algo: Any) -> None:
        """Copy the optimiser state of another one's critics; learning rates and the like are not copied.

        Raises:
            ValueError: If `algo` has no Q-function, other networks, or an optimiser of another class; the state stays
                unchanged.
        """
        critics = [*self.agent.critics]
        pairs = [*zip(critics, _critics_of(algo, len(critics)), strict=True)]
        saving.take_states_of(self.agent, policies.agent_of(algo), pairs, "Q-function")

    def reset_optimizer_states(self) -> None:
        """Reset the state of the optimiser."""
        saving.reset_optimizers(self.agent)

    # Files

    def params(self) -> dict[str, Any]:
        """A description in JSON values: class, configuration, shapes, and the evaluated estimator.

        An evaluated agent cannot be made again from a file, and is None in the description.
        """
        algo = self.algo
        estimator = isinstance(algo, Estimator)
        return {
            "class": type(self).__name__, "config": self.config.described(self.scalers),
            "observation_shape": None if self.observation_shape is None else list(self.observation_shape),
            "action_size": self.action_size, "discrete_action": self.discrete_action, "n_frames": self.n_frames,
            "algo": algo._json_params() if estimator else None,
        }  # fmt: skip

    @classmethod
    def of_params(cls, params: Mapping[str, Any], device: Any, algo: Any = None) -> Self:
        """Make the `FQE` that `params` describes, built if it was.

        Args:
            params: The description.
            device: False for the CPU, True for the first GPU, the number of a GPU, or a name that torch knows.
            algo: The evaluated algorithm; None to make the evaluated estimator again, if there was one.

        Raises:
            ValueError: If `params` describes no `FQE`.
        """
        known: Any = SAVED.get(str(params.get("class")))
        if known is None or not isinstance(params.get("config"), Mapping):
            raise ValueError(f"class is {params.get('class')!r}, expected one of {', '.join(SAVED)}")
        if algo is None and params["algo"] is not None:
            algo = saving.made_of(ESTIMATORS[params["algo"]["algorithm"]], params["algo"])
        made = known(algo, FQEConfig(**params["config"]), device)
        made.n_frames = params.get("n_frames", 1)
        made._build_as(params)
        return cast(Self, made)

    @classmethod
    def from_json(cls, fname: str | os.PathLike[str], device: int | str | bool = False) -> Self:
        """Make an `FQE` from a `params.json`, with untrained networks.

        Args:
            fname: The file.
            device: False for the CPU, True for the first GPU, the number of a GPU, or a name that torch knows.

        Raises:
            CheckpointError: If the file is damaged or describes no `FQE`.
        """
        with saving.told_by(fname):
            return cls.of_params(saving.params_from_json(fname), device)

    def save(self, fname: str | os.PathLike[str]) -> None:
        """Save everything for `load_learnable`, the parameters of an evaluated estimator included.

        Raises:
            NotFittedError: Before the agent is built.
            CheckpointError: If the file cannot be written; an old file of this name stays.
        """
        state = self.agent.state_dict()
        policy = policies.agent_of(self.algo).state_dict()["attributes"] if isinstance(self.algo, Estimator) else {}
        critics = {name: value for name, value in state["attributes"].items() if name != "policy"}
        attributes = {"critics": critics, "policy": policy}
        saving.write_model(fname, {"attributes": attributes, "state": state["state"]}, self.params())

    #: The names of these methods in estimators; `load_model` reads only the parameters of such a file.
    save_model, _json_params = save, params

    def load_model(self, fname: str | os.PathLike[str]) -> None:
        """Load the parameters that `save_model` or `save` saved; the evaluated policy stays unchanged.

        Raises:
            CheckpointError: If the file is damaged, or is of other networks.
        """
        state, params = saving.read_model(fname)
        with saving.told_by(fname):
            if self.impl is None:
                self._build_as(params)
            self._take(state)

    def save_policy(self, fname: str | os.PathLike[str]) -> None:
        """Export the evaluated policy; the ending of the file chooses the format, such as ".onnx", or else TorchScript.

        Raises:
            NotFittedError: Before the agent is built, or if the algorithm is not known.
            TypeError: If the algorithm cannot be exported.
        """
        if self.algo is None or self.observation_shape is None:
            raise NotFittedError("fitted Q evaluation is not built yet, or does not know the algorithm: give algo")
        if hasattr(self.algo, "save_policy"):
            self.algo.save_policy(fname)
            return
        agent = policies.agent_of(self.algo)
        if not hasattr(agent, "export"):
            raise TypeError(f"algo is {type(agent).__name__}, expected an agent or an estimator to export")
        saving.export_greedy(agent, stacked_shape(self.observation_shape, self.n_frames), fname)

    def _build_as(self, params: Mapping[str, Any]) -> None:
        """Set the saved scalers, and build the agent for the shapes in `params`, if there are any."""
        vars(self).update(FQEConfig(**params["config"]).made_scalers())
        if self.discrete_action is None:
            self.discrete_action = params.get("discrete_action")
        self.config.check(bool(self.discrete_action))
        if params["observation_shape"] is not None:
            self.create_impl(params["observation_shape"], params["action_size"])

    def _take(self, state: Mapping[str, Any]) -> None:
        """Load the parameters from a state that `save` wrote; the evaluated policy stays unchanged."""
        own = self.agent.state_dict()["attributes"]
        policy = {name: value for name, value in own.items() if name == "policy"}
        attributes = {**policy, **state["attributes"]["critics"]}
        self.agent.load_state_dict({"attributes": attributes, "state": state["state"]})


SAVED["FQE"] = FQE


class DiscreteFQE(FQE):
    """`FQE` for discrete actions only."""

    only: ClassVar[bool | None] = True
    #: Name of the class for actions of the other kind.
    instead: ClassVar[str] = "FQE"


def _critics_of(algo: Any, count: int) -> list[nn.Module]:
    agent = policies.agent_of(algo)
    critics = getattr(agent, "critics", ())
    if not critics and issubclass(getattr(agent, "value_type", object), ActionValue):
        critics = [agent.model]
    if not critics:
        raise ValueError(f"algo is {type(algo).__name__}, which has no Q-function")
    if len(critics) != count:
        raise ValueError(f"algo has {len(critics)} Q-functions, expected {count}")
    return [*critics]
