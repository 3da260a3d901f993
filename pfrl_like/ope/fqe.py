"""`FQE` and `DiscreteFQE`: fitted Q evaluation of a trained algorithm, with the interface of d3rlpy."""

import copy
import dataclasses
import os
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from pfrl_like import agents
from pfrl_like.action_value import ActionValue
from pfrl_like.algos.fitting import saving, spaces
from pfrl_like.algos.fitting.base import ESTIMATORS, Array, Estimator
from pfrl_like.algos.fitting.hyperparameters import check_ranges
from pfrl_like.algos.fitting.networks import QLearning, adam
from pfrl_like.batch import Batch, batch_of_states, map_nested
from pfrl_like.dataset import MDPDataset, TransitionMiniBatch
from pfrl_like.dataset.selection import Selection
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.encoders import Encoder
from pfrl_like.env import as_gymnasium
from pfrl_like.envs.make_env import accept_env_ids
from pfrl_like.errors import NotFittedError
from pfrl_like.ope import policies
from pfrl_like.ope.episodes import first_observation
from pfrl_like.ope.fqe_config import FIELDS, FQEConfig, config_of, device_of
from pfrl_like.ope.fqe_fitting import FittingFQE
from pfrl_like.preprocessing import Scaler
from pfrl_like.utils.checks import check_counts, names_unknown_keywords
from pfrl_like.utils.contexts import evaluation_mode, evaluation_mode_of_all
from pfrl_like.utils.env_values import space_kind

#: Number of sampled continuous actions per state. The mean of their values is the value of the state.
_SAMPLES = 10


class ActionScaled(nn.Module):
    """Encoder of pairs (observation, action) that scales the actions first.

    Args:
        encoder: Encoder of pairs (observation, scaled action).
        scaler: Fitted scaler of actions.
    """

    def __init__(self, encoder: Encoder, scaler: Scaler) -> None:
        super().__init__()
        self.encoder, self.scaler, self.feature_size = encoder, scaler, encoder.feature_size

    def forward(self, pair: tuple[Tensor, Tensor]) -> Tensor:
        """Return the features of the pairs."""
        obs, action = pair
        features: Tensor = self.encoder((obs, self.scaler.transform(action)))
        return features


class FQE(FittingFQE, QLearning):  # type: ignore[misc]  # `fit` has the signature of later d3rlpy versions
    """Fitted Q evaluation: learns the action values of a trained algorithm from recorded data.

    Estimators and many agents declare if their actions are discrete. For other algorithms, the data or the environment
    passed to `fit`, `fit_online` or `collect` determine this.

    The algorithm is evaluated with the actions that it selects in evaluation: the modes of its policy, or samples if
    the algorithm is an agent with `act_deterministically=False`. To evaluate samples of a policy that is a module, set
    `fqe.agent.act_deterministically = False` after the agent is built. The `FQE` trains an `agents.FittedQEvaluation`,
    and does not change the algorithm.

    If the algorithm has `n_frames`, the `FQE` stacks images of data and environments. `predict` and similar methods
    take stacked images. Replay buffers contain unstacked images, also the buffers that `collect` fills. Recurrent
    agents raise an error, because they need minibatches of sequences: use `agents.FittedQEvaluation` for them.

    Observations of data may be tuples of vectors and images. Methods such as `predict` then take a tuple of arrays,
    [n, ...] each, and `observation_scaler` must be None.

    Hyperparameters are the fields of `config`, or arguments with the names that estimators have. Such an argument, if
    it is not None, replaces the field.

    Args:
        algo: Agent, estimator with a built agent, or object with a method `predict` that takes raw observations.
        config: Hyperparameters. If None, the defaults of `FQEConfig` are used.
        device: Device of the critics: False for the CPU, True for the first GPU, the index of a GPU, or a device name
            of torch.
        impl: Agent to use. If None, the `FQE` builds an agent.
        learning_rate: Learning rate of the critics.
        gamma: Discount factor per step.
        n_critics: Number of critics. Each critic has its own target network.
        bootstrap: True to train each Q-function on random rows of the minibatch. The values of the Q-functions then
            differ more where data are scarce.
        share_encoder: True if all Q-functions share one encoder.
        q_func_type: Output of the Q-functions: "mean" (the expected return), "qr" (quantiles), "iqn" (quantiles at
            random fractions) or "fqf" (quantiles at fractions that a network proposes).
        target_update_interval: Number of gradient steps between updates of the target networks.
        eps: Epsilon of Adam.
        batch_size: Number of transitions per minibatch.
        n_frames: Number of consecutive images that are stacked. If None, the number of the algorithm is used.
        use_batch_norm: True to apply batch normalisation after each layer of the networks.
        use_gpu: Device to use in place of `device`: False for the CPU, True for the first GPU, the index of a GPU, or a
            `pfrl_like.gpu.Device`.
        compile: True to compile the update of the critics. The second update compiles, which takes about 30 s.
        scaler: Scaler of the critics' observations: a name, a `Scaler`, or None. The evaluated policy receives unscaled
            observations.
        action_scaler: Scaler of the critics' continuous actions: a name, a `Scaler`, or None.
        reward_scaler: Scaler of the rewards: a name, a `Scaler`, or None. Predicted values are then values of scaled
            rewards.
        augmentation: List of augmentations or of names of augmentations, or an `AugmentationPipeline`. None or an empty
            list disables augmentation.
        n_augmentations: Number of augmented copies of each row. The loss is the mean over the copies.
        encoder_params: Dict with the layer sizes of the encoder. For vector observations: "hidden_units", a list of
            layer sizes. For image observations: "filters", a list of (channels, kernel size, stride), and
            "feature_size", the size of the last linear layer.
        n_epochs: Number of epochs if `fit` is called with neither `n_steps` nor `n_epochs`. None if `fit` needs one of
            these arguments.
        observation_scaler: Other name of `scaler`.

    Attributes:
        algo: The evaluated algorithm.
        config: Copy of the current hyperparameters.
        impl: Agent that is trained; None before it is built.
        observation_shape: Shape of one observation without stacked frames; None before the agent is built.
        action_size: Size of a continuous action, or number of discrete actions; None before the agent is built.
        observation_scaler: Scaler of the critics' observations, or None.
        action_scaler: Scaler of the critics' actions, or None.
        reward_scaler: Scaler of the rewards in training, or None.
        need_returns_to_go: Always False, because training does not use returns-to-go.
        discrete_action: True if actions are discrete, False if they are continuous, None as long as this is unknown.
        eval_results_: Scores of each evaluator, keyed by its name: a list with one score per epoch.

    Raises:
        ValueError: If a hyperparameter is out of range, or the device does not exist.
        TypeError: If `config` is not an `FQEConfig`, a hyperparameter is not a number, or a keyword is unknown. If both
            `device` and `use_gpu` are given, or both names of the scaler.
    """

    takes_tuples = True
    acts_scaled = False  # the critics scale the unscaled actions of the evaluated policy
    #: True if actions must be discrete. None if they may be discrete or continuous.
    only: ClassVar[bool | None] = None
    loss_names: ClassVar[Mapping[str, str]] = {"loss": "loss"}
    names_in_errors: ClassVar[Mapping[str, str]] = {"scaler": "observation_scaler"}
    need_returns_to_go: ClassVar[bool] = False

    learning_rate: float = 1e-4
    target_update_interval: int = 100
    discrete_action: bool | None = None  # type: ignore[misc,assignment]  # known from the algorithm or the data

    @names_unknown_keywords
    def __init__(
        self,
        algo: Any,
        config: FQEConfig | None = None,
        device: bool | int | str = False,
        impl: Any = None,
        *,
        learning_rate: float | None = None,
        gamma: float | None = None,
        n_critics: int | None = None,
        bootstrap: bool | None = None,
        share_encoder: bool | None = None,
        q_func_type: str | None = None,
        target_update_interval: int | None = None,
        eps: float | None = None,
        batch_size: int | None = None,
        n_frames: int | None = None,
        use_batch_norm: bool | None = None,
        use_gpu: Any = None,
        compile: bool | None = None,
        scaler: Any = None,
        action_scaler: Any = None,
        reward_scaler: Any = None,
        augmentation: Any = None,
        n_augmentations: int | None = None,
        encoder_params: Mapping[str, Any] | None = None,
        n_epochs: int | None = None,
        observation_scaler: Any = None,
    ) -> None:
        if scaler is not None and observation_scaler is not None:
            raise TypeError("scaler and observation_scaler are names of one argument: pass only one of them")
        if use_gpu is not None and device is not False:
            raise TypeError(f"device is {device!r} and use_gpu is {use_gpu!r}: pass only one of them")
        given = {**locals(), "observation_scaler": observation_scaler if scaler is None else scaler}
        changes = {name: given[name] for name in FIELDS if given[name] is not None}
        self.algo, resolved = algo, dataclasses.replace(config_of(config), **changes)
        self._torch_device = device_of(device if use_gpu is None else use_gpu)
        kind, n_frames = self.only, int(getattr(algo, "n_frames", 1) if n_frames is None else n_frames)
        kind = policies.declared_action_kind(impl, algo) if kind is None else kind
        super().__init__(discrete_action=kind, n_frames=n_frames, impl=impl, **vars(resolved))
        check_counts(target_update_interval=self.target_update_interval)
        check_ranges(self)
        spaces.copy_scalers(self)

    # The agent

    agent = property(attrgetter("_agent"), doc="Agent that is trained. Raises NotFittedError before it is built.")

    @property
    def config(self) -> FQEConfig:
        """Copy of the current hyperparameters. `set_params` changes them."""
        params = self.get_params(deep=False)
        return FQEConfig(**{name: params[self.spellings.get(name, name)] for name in FIELDS})

    @property
    def _device(self) -> torch.device:
        return self._torch_device

    @property
    def grad_step(self) -> int:
        """Number of updates so far, summed over all calls of `fit`."""
        return 0 if self.impl is None else int(self.impl.optim_t)

    def set_grad_step(self, grad_step: int) -> None:
        """Set the number of updates. It determines the time of the next update of the target networks."""
        check_counts(least=0, grad_step=grad_step)
        self.agent.set_update_count(grad_step)

    # Building

    def inner_create_impl(self, observation_shape: Any, action_size: int) -> None:
        """Build the agent. `create_impl` calls this method with the same arguments.

        Raises:
            TypeError: If the algorithm cannot act, or its actions are continuous instead of discrete, or the reverse.
            NotFittedError: If the algorithm is an estimator whose agent is not built yet.
        """
        discrete = bool(self.discrete_action)
        policy: nn.Module = policies.NoPolicy()
        if self.algo is not None:
            policy = policies.policy_of(self.algo, action_size if discrete else None)
            policy = policies.policy_on_device(self._device, policy)
        agent = policies.feature_agent_of(self.algo, policy)
        features = {"phi": agent.phi, "batch_states": agent.batch_states} if hasattr(agent, "phi") else {}
        one = spaces.map_shape(lambda shape: np.zeros((1, *shape), np.float32), self._stacked_shape)
        shape: Any = map_nested(lambda leaf: tuple(leaf.shape[1:]), policies.features_of(agent, one))

        def encoder() -> Any:
            unscaled = self._encoder(shape, 0 if discrete else action_size)
            return unscaled if self.action_scaler_ is None else ActionScaled(unscaled, self.action_scaler_)

        critics = self._q_function(encoder, action_size if discrete else 1)
        agent_class = agents.DiscreteFittedQEvaluation if discrete else agents.FittedQEvaluation
        self.impl = agent_class(
            policy, [critics], [adam(critics, self.learning_rate, self.eps)], gamma=self.gamma,
            act_deterministically=policies.evaluates_modes(self.algo),
            target_update_interval=self.target_update_interval, **self._common(), **features,
        )  # fmt: skip

    def _build_agent(self, observation_shape: tuple[int, ...], action_size: int) -> Any:
        self.discrete_action = bool(self.discrete_action)
        self.inner_create_impl(self.observation_shape_, action_size)
        return self.impl

    def build_with_dataset(self, dataset: Any) -> None:
        """Build the agent for a dataset, and fit the scalers to the dataset.

        If the agent is already built, only check that it matches the dataset.

        Args:
            dataset: `MDPDataset`, list of episodes, or replay buffer.

        Raises:
            TypeError: If only one of dataset and algorithm (or critics) has discrete actions.
            ValueError: If the dataset is empty, or has the wrong shapes for the agent or the algorithm. If the dataset
                is a replay buffer of n-step returns and there is a `reward_scaler`.
            NotFittedError: If the algorithm is an estimator whose agent is not built yet.
        """
        spaces.check_single_rewards(self.reward_scaler, dataset)
        if self.impl is not None and self.observation_shape is None:  # the user passed `impl`
            return
        data = MDPDataset.from_buffer(dataset) if hasattr(dataset, "stored_steps") else dataset
        selection = data if isinstance(data, Selection) else Selection(data)
        discrete, shape, size = selection.discrete_action, selection.observation_shape, selection.action_size
        spaces.check_action_kind(self, discrete)
        policies.check_fits(self.algo, discrete, shape, size)
        self._build_or_check(discrete, shape, size, first_observation(selection, self.n_frames), selection.episodes)

    @accept_env_ids("env")
    def build_with_env(self, env: Any) -> None:
        """Build the agent for the spaces of an environment.

        If the agent is already built, only check that it matches the environment.

        Args:
            env: Environment that `pfrl_like.env.as_gymnasium` accepts, or an environment id such as "Pendulum-v1".

        Raises:
            TypeError: If only one of environment and algorithm (or critics) has discrete actions.
            ValueError: If continuous actions are not vectors, or the environment has the wrong shapes for the agent or
                the algorithm.
            NotFittedError: If the algorithm is an estimator whose agent is not built yet.
        """
        adapted = as_gymnasium(env)
        shape, size = spaces.shapes_of_env(self, env)
        obs = np.zeros(stacked_shape(shape, self.n_frames), adapted.observation_space.dtype)
        self._build_or_check(space_kind(adapted.action_space) == "discrete", shape, size, obs, None)

    def _build_or_check(self, discrete: bool, shape: Any, size: int, obs: Any, episodes: Any) -> None:
        """Build the agent, or check that a built agent and the algorithm match the data. Set `discrete_action`.

        Args:
            discrete: True if actions are discrete.
            shape: Shape of one observation without stacked frames.
            size: Size of a continuous action, or number of discrete actions. Data may contain fewer discrete actions.
            obs: Observation for a dry run of the algorithm.
            episodes: Episodes to which the scalers are fitted. None for an environment.
        """
        n_actions, previous, self.discrete_action = size, self.discrete_action, discrete
        try:
            spaces.copy_scalers(self)  # raises an error if there is a scaler and actions are discrete
            if self.n_frames > 1 and any(isinstance(part, tuple) for part in shape):
                raise ValueError(f"n_frames is {self.n_frames}, but observations are tuples: expected 1")
            if self.algo is not None:
                *_, n_actions = policies.dry_run_policy(self.algo, obs, discrete, size, env=episodes is None)
            if self.impl is None:
                if episodes is not None:
                    self.fit_scaler(episodes)
                self.create_impl(shape, n_actions)
            self.check_shapes(shape, size)
        except BaseException:
            self.discrete_action = previous
            raise

    # Learning

    def update(self, batch: TransitionMiniBatch | Batch) -> dict[str, float]:
        """Make one update.

        Args:
            batch: The minibatch.

        Returns:
            Dict of metrics.

        Raises:
            NotFittedError: If the agent is not built yet.
            TypeError: If `batch` is not a minibatch, or if only one of batch and critics has discrete actions.
            ValueError: If observations or actions have the wrong shape, or a discrete action does not exist.
            NonFiniteError: If a loss or an action contains NaN or infinity.
        """
        return dict(super().update(batch))

    def _learn(self, epoch: int, total_step: int, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        return super()._learn(epoch, self.grad_step, batch)  # `grad_step` counts the updates of all calls of `fit`

    # Values

    def predict_state_value(self, x: Any) -> Array:
        """Return state values under the policy, [n].

        If the policy samples continuous actions, a state value is the mean over 10 sampled actions. The argument `x`
        and the errors are the same as in `predict_value`.
        """
        agent = self._agent
        if agent.act_deterministically:
            values: Array = self.predict_value(x, self.predict(x))
            return values
        obs = self._features(x)
        with torch.no_grad(), evaluation_mode(agent.policy):
            distribution = agent.policy(obs)
        with torch.no_grad(), evaluation_mode_of_all(*agent.critics):
            if self.discrete_action:
                q = [agent.value_of(critic, batch_of_states(obs)).q_values for critic in agent.critics]
                values_of_states: Tensor = torch.linalg.vecdot(distribution.probs, torch.stack(q).mean(0))
            else:
                samples = [agent.values_of_pairs(obs, distribution.sample()).mean(0) for _ in range(_SAMPLES)]
                values_of_states = torch.stack(samples).mean(0)
        return values_of_states.cpu().numpy()

    # Copying from other algorithms

    def copy_policy_from(self, algo: Any) -> None:
        """Replace the evaluated algorithm by a copy of another algorithm with the same architecture.

        Saved files then contain the copy.

        Raises:
            ValueError: If the networks of the policies differ, or if the `phi` of the agents differ. If one of the
                algorithms selects actions with more networks than its policy, for example `BCQ` or `BEAR`.
        """
        other, acting = algo, policies.agent_of(algo)
        if isinstance(algo, FQE):
            other = acting.policy if algo.algo is None else algo.algo
        buffer = getattr(policies.agent_of(other), "replay_buffer", None)
        copied = copy.deepcopy(other, {id(buffer): buffer})  # do not copy the buffer, which may be large
        policy = policies.policy_of(copied, self.action_size if self.discrete_action else None)
        for each, source in ((self.agent.policy, self.algo), (policy, other)):
            if isinstance(each, policies.ActingPolicy):
                raise ValueError(f"algo: {type(source).__name__} acts by more than one network: construct a new FQE")
        if getattr(acting, "phi", self.agent.phi) != self.agent.phi:
            raise ValueError("algo has another phi than the critics: construct a new FQE of algo")
        saving.check_form(self.agent.policy, policy, "policy")
        self.agent.policy, self.algo = policies.policy_on_device(self.agent.device, policy), copied
        self.agent.act_deterministically = policies.evaluates_modes(acting)

    def copy_policy_optim_from(self, algo: Any) -> None:
        """Raise an error, because the evaluated policy is not trained and has no optimiser.

        Raises:
            ValueError: Always.
        """
        raise ValueError(f"{type(self).__name__} evaluates a fixed policy, which has no optimiser")

    def copy_q_function_from(self, algo: Any) -> None:
        """Copy the critic parameters of another `FQE`, an agent or an estimator to the critics and the target critics.

        Raises:
            ValueError: If `algo` has no Q-function, or the networks differ. Nothing is copied.
        """
        ours = [self.agent.critics, self.agent.target_critics]
        theirs = _critics_of(algo, len(ours[0]))
        pairs = [pair for networks in ours for pair in zip(networks, theirs, strict=True)]
        saving.copy_networks(pairs, "Q-function")

    def copy_q_function_optim_from(self, algo: Any) -> None:
        """Copy the optimiser state of the critics of `algo`. Learning rates and other settings are not copied.

        Raises:
            ValueError: If `algo` has no Q-function, different networks, or an optimiser of a different class. The state
                stays unchanged.
        """
        critics = [*self.agent.critics]
        pairs = [*zip(critics, _critics_of(algo, len(critics)), strict=True)]
        saving.copy_optimizer_states(self.agent, policies.agent_of(algo), pairs, "Q-function")

    # Files

    def _json_params(self) -> dict[str, Any]:
        """Return the hyperparameters, including the hyperparameters of an evaluated estimator, as JSON values."""
        algo = self.algo._json_params() if isinstance(self.algo, Estimator) else None
        return {**super()._json_params(), "algo": algo}

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted `FQE` of the same algorithm with equal hyperparameters."""
        return cast(Self, self._create({**self.get_params(), "algo": self.algo, "use_gpu": self._torch_device}))

    @classmethod
    def _create(cls, given: Mapping[str, Any]) -> Any:
        algo = given.get("algo")
        if isinstance(algo, Mapping):  # an estimator
            algo = saving.create_estimator(ESTIMATORS[algo["algorithm"]], algo)
        keys = {name: cls.spellings.get(name, name) for name in FIELDS}
        config = FQEConfig(**{name: given[key] for name, key in keys.items() if key in given})
        made = cls(algo, config, given["use_gpu"])
        made.n_frames = given["n_frames"]
        if made.discrete_action is None:
            made.discrete_action = given["discrete_action"]
        return made

    @classmethod
    def from_json(cls, fname: str | os.PathLike[str], device: bool | int | str = False) -> "FQE":
        """Create an `FQE` from a `params.json`, with untrained networks.

        Args:
            fname: Path of the file.
            device: Device of the critics: False for the CPU, True for the first GPU, the index of a GPU, or a device
                name of torch.

        Raises:
            CheckpointError: If the file is damaged or does not describe an `FQE`.
            ValueError: If the device does not exist.
        """
        return FQE._from_params(fname, saving.params_from_json(fname), device_of(device))

    def save_model(self, fname: str | os.PathLike[str]) -> None:
        """Save the state for `load_learnable`, including the parameters of an evaluated estimator.

        Raises:
            NotFittedError: If the agent is not built yet.
            CheckpointError: If the file cannot be written. An existing file of this name stays unchanged.
        """
        state = self._agent.state_dict()
        policy = policies.agent_of(self.algo).state_dict()["attributes"] if isinstance(self.algo, Estimator) else {}
        critics = {name: value for name, value in state["attributes"].items() if name != "policy"}
        state["attributes"] = {"critics": critics, "policy": policy}
        saving.write_model(fname, state, self._json_params())

    save = save_model

    def load_model(self, fname: str | os.PathLike[str]) -> None:
        """Load the parameters that `save_model` or `save` saved. The evaluated policy stays unchanged.

        If the agent is not built yet, or the scalers differ, the agent is built with the saved shapes and scalers.

        Raises:
            CheckpointError: If the file is damaged or contains other networks.
        """
        state, params = saving.read_model(fname)
        if self.discrete_action is None:
            self.discrete_action = params.get("discrete_action")
        self._restore_model(fname, state, params)

    def _load(self, state: Mapping[str, Any]) -> None:
        policy = {"policy": self._agent.state_dict()["attributes"]["policy"]}
        self.impl.load_state_dict({**state, "attributes": policy | state["attributes"]["critics"]})

    def save_policy(self, fname: str | os.PathLike[str]) -> None:  # type: ignore[override]
        """Export the evaluated policy.

        The extension of the file name selects the format, for example ".onnx". Other extensions mean TorchScript.

        Raises:
            NotFittedError: If the agent is not built yet, or the algorithm is unknown.
            TypeError: If the algorithm cannot be exported.
        """
        if self.algo is None or self.observation_shape is None:
            raise NotFittedError("the FQE is not built yet, or its algo is None: pass algo and call fit")
        if hasattr(self.algo, "save_policy"):
            self.algo.save_policy(fname)
            return
        agent = policies.agent_of(self.algo)
        if not hasattr(agent, "export"):
            raise TypeError(f"algo is {type(agent).__name__}, expected an agent or an estimator to export")
        saving.export_greedy(agent, self._stacked_shape, fname)


class DiscreteFQE(FQE):
    """`FQE` for discrete actions only."""

    only: ClassVar[bool | None] = True
    #: Name of the class for continuous actions.
    instead: ClassVar[str] = "FQE"


def load_learnable(fname: saving.PathLike, *, device: int | str | torch.device | bool = False, algo: Any = None) -> Any:
    """Load an estimator or an `FQE` from a file that its method `save` wrote. Loading executes no code from the file.

    Args:
        fname: Path of the file.
        device: Device to use: False for the CPU, True for the first GPU, the index of a GPU, or a device name of torch,
            such as "cpu:0" or "cuda:1".
        algo: Algorithm that the loaded `FQE` evaluates. If None, the `FQE` evaluates the estimator in the file. The
            file contains no agents, so an `FQE` of an agent that is loaded without `algo` returns values, but no
            actions.

    Returns:
        An estimator or `FQE` with the saved state.

    Raises:
        CheckpointError: If the file is damaged or has other contents.
        TypeError: If `algo` is not None and the file contains an estimator.
        ValueError: If the device does not exist, or an estimator does not support this type of device.
    """
    state, params = saving.read_model(fname)
    name, torch_device = params.get("algorithm"), device_of(device)
    if evaluates := issubclass(ESTIMATORS.get(str(name), Estimator), FQE):
        params = params if algo is None else {**params, "algo": algo}
    elif algo is not None:
        raise TypeError(f"algo is {type(algo).__name__}, but {fname} contains {name}, not an FQE: expected None")
    elif torch_device.type not in {"cpu", "cuda"}:
        raise ValueError(f"device is {device!r}, expected 'cpu' or 'cuda:<number>' for an estimator")
    made: Any = Estimator._from_params(fname, params, torch_device if evaluates else torch_device.index)
    made._restore_model(fname, state, params)
    if evaluates and algo is None and made.algo is not None:
        with saving.errors_about_file(fname):
            agent = made.algo.impl
            agent.load_state_dict({**agent.state_dict(), "attributes": state["attributes"]["policy"]})
    return made


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
