"""Decision Transformers, the inputs of their predictions, and wrappers that act with them."""

import copy
import functools
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
import torch

from pfrl_like import agents
from pfrl_like.batch import Batch, map_nested
from pfrl_like.d3rlpy.algos.configs import DecisionTransformerConfig, DiscreteDecisionTransformerConfig
from pfrl_like.d3rlpy.algos.qlearning import offline
from pfrl_like.d3rlpy.algos.qlearning.base import StepCallback
from pfrl_like.d3rlpy.algos.qlearning.parts import Implementation, Parts
from pfrl_like.d3rlpy.base import LearnableBase, export_ending
from pfrl_like.d3rlpy.constants import ActionSpace, LoggingStrategy
from pfrl_like.d3rlpy.dataset import ReplayBuffer, TrajectoryMiniBatch
from pfrl_like.d3rlpy.dataset.columns import column_observation
from pfrl_like.d3rlpy.dataset.nested import batch_pad_array, map_parts, parts_of, stack_parts
from pfrl_like.d3rlpy.logging import FileAdapterFactory, LoggerAdapterFactory
from pfrl_like.d3rlpy.metrics import evaluate_transformer_with_environment
from pfrl_like.d3rlpy.models.transformers import Transformer
from pfrl_like.d3rlpy.types import GymEnv, NDArray, Observation, Shape
from pfrl_like.errors import ExportError
from pfrl_like.export.export_policy import FORMATS, check_arguments, exporting
from pfrl_like.export.policy import Port, Signature
from pfrl_like.replay_buffers import ReplayBuffer as AgentBuffer
from pfrl_like.storage import atomic_write

_FILES = FileAdapterFactory()


@dataclass(frozen=True)
class TransformerInput:
    """The last L steps of an episode, oldest first.

    Args:
        observations: Observations, [L, ...]; a list of such arrays for tuples of observations.
        actions: Actions, [L] if they are discrete, otherwise [L, action_size]. The last one is a placeholder.
        rewards: Rewards of the previous actions, [L, 1].
        returns_to_go: Returns that are to be reached from each step on, [L, 1].
        timesteps: Numbers of the steps, from 1, [L].

    Raises:
        ValueError: If the lengths differ.
    """

    observations: Any
    actions: NDArray
    rewards: NDArray
    returns_to_go: NDArray
    timesteps: NDArray

    def __post_init__(self) -> None:
        lengths = {name: [*map(len, parts_of(values))] for name, values in vars(self).items()}
        if any(length != self.length for each in lengths.values() for length in each):
            raise ValueError(f"the numbers of steps are {lengths}, expected equal ones")

    @property
    def length(self) -> int:
        """Number of steps, L."""
        return len(self.actions)


class TransformerActionSampler(Protocol):
    """Interface of samplers."""

    def __call__(self, transformer_output: NDArray) -> Any:
        """Return an action.

        Args:
            transformer_output: The action of a continuous transformer, [action_size], or logits, [n_actions].
        """


class IdentityTransformerActionSampler(TransformerActionSampler):
    """Returns the output, which is the action of a continuous transformer."""

    def __call__(self, transformer_output: NDArray) -> Any:
        """Return the output."""
        return transformer_output


class SoftmaxTransformerActionSampler(TransformerActionSampler):
    """Samples a discrete action from the softmax of the logits, with NumPy's global generator.

    Args:
        temperature: Divisor of the logits, positive. A low temperature prefers the greedy action.
    """

    def __init__(self, temperature: float = 1.0) -> None:
        self._temperature = temperature

    def __call__(self, transformer_output: NDArray) -> Any:
        """Return the sampled action, an integer."""
        logits = transformer_output / self._temperature
        weights = np.exp(logits - logits.max())
        return int(np.random.choice(len(weights), p=weights / weights.sum()))


class GreedyTransformerActionSampler(TransformerActionSampler):
    """Returns the discrete action with the largest logit."""

    def __call__(self, transformer_output: NDArray) -> Any:
        """Return the greedy action, an integer."""
        return int(np.argmax(transformer_output))


class StatefulTransformerWrapper:
    """Acts with a transformer and keeps the context of the running episode.

    Args:
        algo: Transformer, built.
        target_return: Undiscounted return that the episodes are to reach.
        action_sampler: Function that makes an action of the transformer's output.

    Attributes:
        algo: The transformer.

    Raises:
        NotFittedError: If the transformer is not built.
    """

    algo: Any

    def __init__(self, algo: Any, target_return: float, action_sampler: TransformerActionSampler) -> None:
        self.algo, self._target_return, self._action_sampler = algo, target_return, action_sampler
        self._size, self._is_continuous = algo._config_with_shape().action_size, not algo._is_discrete
        self.reset()

    def reset(self) -> None:
        """Start a new episode."""
        self._steps: deque[list[Any]] = deque(maxlen=self.algo.config.context_size)
        self._return_to_go, self._timestep = self._target_return, 1

    def predict(self, x: Observation, reward: float) -> Any:
        """Return the action for an observation.

        Args:
            x: Observation, [...], or a tuple of arrays.
            reward: Reward of the previous action, 0 at the start of an episode.
        """
        placeholder = np.zeros(self._size, np.float32) if self._is_continuous else 0
        self._return_to_go -= reward
        self._steps.append([x, placeholder, [reward], [self._return_to_go], self._timestep])
        observations, *others = zip(*self._steps, strict=True)
        context = TransformerInput(stack_parts(observations), *map(np.array, others))
        self._steps[-1][1] = action = self._action_sampler(self.algo.predict(context))
        self._timestep = min(self._timestep + 1, self.algo.config.max_timestep)
        return action


class TransformerAlgoBase(LearnableBase):
    """Base class of Decision Transformers. The agent is a `pfrl_like.agents.BC`, whose observations are sequences.

    The losses are those of d3rlpy 2.8, which differ from those of `pfrl_like.agents.DecisionTransformer`. For
    continuous actions, the squared errors are summed over the components and averaged over all steps, and padding
    counts as 0. For discrete actions, padding counts as steps with the action 0.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the config has an `action_scaler`, but actions are discrete.
        TypeError: If `device` has the wrong type.
    """

    def build(self, observation_shape: Shape, action_size: int) -> Implementation:
        transformer = Transformer(self.config, observation_shape, action_size, self._is_discrete).to(self._device)
        optim = self.optimizer("", transformer)
        options = {name: value for name, value in self.options().items() if name != "gamma"}
        agent: Any = agents.BC(transformer, optim.optim, AgentBuffer(None), **options)
        return Implementation(self, agent, Parts(transformer=transformer, optim=optim))

    def save_policy(self, fname: str) -> None:
        """Export the greedy policy to a file that runs without this library.

        The inputs are exactly `context_size` steps without a batch axis, in the shapes of `TransformerInput`: the parts
        of the observations, `observation_0`, ...; `action`, float32, also for discrete actions, then [L, 1];
        `return_to_go`, [L, 1]; and `timestep`, int64. The output is the last action, or the greedy index.

        The file contains the scalers of observations and actions. As in d3rlpy, it does not contain the scaler of
        rewards: scale the returns to go.

        Args:
            fname: Path of the file. `.onnx` selects the ONNX format, `.pt` selects TorchScript.

        Raises:
            NotFittedError: If the networks are not built.
            ValueError: If the path has another ending.
            ExportError: If the exported policy and the transformer select different actions.
            CheckpointError: If the file cannot be written. An existing file of this name stays unchanged.
            MissingDependencyError: If a package for the format is not installed.
        """
        policy: Any = _LastAction(self)
        ending = export_ending(fname)
        check_arguments(fname, ending)
        inputs, others = policy.examples(0), policy.examples(1)
        with exporting():
            content = FORMATS[ending].write(policy, inputs, "{}")
            output, expected = FORMATS[ending].run(content)(others)[0], policy(*others)
        if not torch.allclose(output, expected, 1e-3, 1e-3):
            raise ExportError(f"the exported policy selects {output.tolist()} instead of {expected.tolist()}")
        atomic_write(fname, content)

    def predict(self, inpt: TransformerInput) -> NDArray:
        """Return the last action of a sequence: a vector, [action_size], or the logits of discrete actions.

        Args:
            inpt: The sequence. Only its last `context_size` steps are used.

        Raises:
            NotFittedError: If the networks are not built.
            TypeError: If `inpt` is no `TransformerInput`.
        """
        network, n = self._built.modules.transformer, self.config.context_size
        if not isinstance(inpt, TransformerInput):
            advice = "act with as_stateful_wrapper(target_return), and use evaluate_transformer_with_environment"
            raise TypeError(f"inpt is {type(inpt).__name__}, expected a TransformerInput: {advice}")

        def padded(array: Any) -> Any:
            return batch_pad_array(array[-n:], max(0, n - inpt.length))[None]

        columns = {name: map_parts(padded, values) for name, values in vars(inpt).items()}
        x = self._tensors(SimpleNamespace(**columns, masks=padded(np.ones(inpt.length))))
        return self._acted(x, lambda x: self._last_output(network, x))

    def fit(
        self, dataset: Any, n_steps: int, n_steps_per_epoch: int = 10000, experiment_name: str | None = None,
        with_timestamp: bool = True, logger_adapter: LoggerAdapterFactory = _FILES, show_progress: bool = True,
        eval_env: GymEnv | None = None, eval_target_return: float | None = None,
        eval_action_sampler: TransformerActionSampler | None = None, save_interval: int = 1,
        callback: StepCallback | None = None,
    ) -> None:  # fmt: skip
        """Train on a dataset.

        Args:
            dataset: Dataset of the layer, or of `pfrl_like.dataset`, which is converted.
            n_steps: Number of updates. Updates after the last whole epoch are not made.
            n_steps_per_epoch: Number of updates in an epoch.
            experiment_name: Name in the log. If None, the class name.
            with_timestamp: True to append `_YYYYmmddHHMMSS` to the name.
            logger_adapter: Factory of the log.
            show_progress: True to show a progress bar for each epoch.
            eval_env: Environment of the metric `environment`, the mean return of 10 episodes after each epoch. If None,
                there is no evaluation.
            eval_target_return: Return that these episodes are to reach.
            eval_action_sampler: Sampler of their actions. If None, that of `as_stateful_wrapper`.
            save_interval: Number of epochs between saved models.
            callback: Function called as (algorithm, epoch, updates so far) after each update.

        Raises:
            ValueError: If there are no transitions, a number is out of range, or only `eval_env` is given.
            ActionKindError: If the dataset has another kind of actions than the algorithm.
            NonFiniteError: If a loss is NaN or infinite.
        """
        if eval_env is not None and eval_target_return is None:
            raise ValueError("eval_target_return is None, expected the return that is to be reached in eval_env")

        def environment(algo: Any, dataset: Any) -> float:
            wrapper = algo.as_stateful_wrapper(eval_target_return, eval_action_sampler)
            return evaluate_transformer_with_environment(wrapper, eval_env)

        given = SimpleNamespace(**locals(), logging_steps=500, logging_strategy=LoggingStrategy.EPOCH)
        given.epoch_callback, given.evaluators = None, {} if eval_env is None else {"environment": environment}
        list(offline.epochs(self, dataset, given))

    def update(self, batch: TrajectoryMiniBatch) -> dict[str, float]:
        """Make one update from a minibatch, and return metrics.

        Args:
            batch: Minibatch of `sample_trajectory_batch`. The algorithm scales its values.

        Raises:
            NotFittedError: If the networks are not built.
            NonFiniteError: If the loss or a gradient is NaN or infinite.
        """
        x = self._tensors(batch)
        action, is_step = x[1].flatten(0, 1), x[-1].flatten()
        # The agent's squared error is a mean over the components.
        weight = None if self._is_discrete else is_step * action.shape[1]
        rows = Batch(obs=x, action=action, reward=is_step, next_obs=None, discount=is_step, weight=weight)
        with offline.learners(self):
            loss = self._built.agent.update(rows)[1]["loss"]
        self._grad_step += 1
        return {"loss": float(loss)}

    def as_stateful_wrapper(
        self, target_return: float, action_sampler: TransformerActionSampler | None = None
    ) -> StatefulTransformerWrapper:
        """Return an object that acts for whole episodes.

        Args:
            target_return: Undiscounted return that the episodes are to reach.
            action_sampler: Function that makes an action of the transformer's output. If None, discrete actions are
                sampled from the softmax of the logits.

        Raises:
            NotFittedError: If the networks are not built.
        """
        usual = SoftmaxTransformerActionSampler() if self._is_discrete else IdentityTransformerActionSampler()
        return StatefulTransformerWrapper(self, target_return, action_sampler or usual)

    def fit_scaler(self, scaler: Any, dataset: ReplayBuffer) -> None:
        """Fit a scaler to the trajectories of a dataset."""
        scaler.fit_with_trajectory_slicer(dataset.episodes, dataset.trajectory_slicer)

    def learn_from(self, dataset: ReplayBuffer) -> Callable[[], dict[str, float]]:
        """Sample a minibatch, and return a function that makes an update from it."""
        batch = dataset.sample_trajectory_batch(self.batch_size, self.config.context_size)
        return lambda: self.update(batch)

    @property
    def _is_discrete(self) -> bool:
        return self.get_action_type() is ActionSpace.DISCRETE

    def _last_output(self, network: Any, x: Any) -> Any:
        """Return the network's output for the last step of the last sequence."""
        return getattr(network(x), "scores" if self._is_discrete else "mode")[-1]

    def _tensors(self, batch: Any, exporting: bool = False) -> Any:
        """Return the network's input for a `TrajectoryMiniBatch`, scaled except for observations.

        If `exporting`, tensors stay on their device, and returns are not scaled.
        """
        device = None if exporting else self._device
        tensor: Any = functools.partial(torch.as_tensor, dtype=torch.get_default_dtype(), device=device)
        others = batch.actions, batch.returns_to_go, batch.timesteps, batch.masks
        obs, action, returns, timesteps, masks = map_nested(tensor, (column_observation(batch.observations), *others))
        if self._is_discrete:
            action = action.view(masks.shape).long()
        elif self.action_scaler is not None:
            action = self.action_scaler.transform(action)
        if self.reward_scaler is not None and not exporting:
            returns = self.reward_scaler.transform(returns)
        return obs, action, returns, timesteps.long(), masks


class _LastAction(torch.nn.Module):
    """The policy in an exported file, a function of `context_size` steps without a batch axis.

    Args:
        algo: Transformer, built.

    Attributes:
        signature: Inputs and output.
    """

    def __init__(self, algo: Any) -> None:
        super().__init__()
        self.network = copy.deepcopy(algo._built.modules.transformer).requires_grad_(False).cpu().eval()
        self._algo = algo
        n, shape = algo.config.context_size, algo.observation_shape
        parts = shape if isinstance(shape[0], Sequence) else [shape]
        shapes = {f"observation_{i}": (n, *part) for i, part in enumerate(parts)}
        shapes |= {"action": (n, 1 if algo._is_discrete else algo.action_size), "return_to_go": (n, 1)}
        inputs = [*(Port(name, shape, "float32") for name, shape in shapes.items()), Port("timestep", (n,), "int64")]
        self.signature = Signature(tuple(inputs), (Port("output_0", (), ""),))

    def examples(self, seed: int) -> list[torch.Tensor]:
        """Return random inputs."""
        generator, (*others, timestep) = torch.Generator().manual_seed(seed), self.signature.inputs
        return [*(torch.rand(port.sizes(1), generator=generator) for port in others), torch.arange(*timestep.sizes(1))]

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the last action."""
        *obs, actions, returns, timesteps = (each.unsqueeze(0) for each in inputs)
        batch = SimpleNamespace(
            observations=obs if len(obs) > 1 else obs[0], actions=actions, returns_to_go=returns,
            timesteps=timesteps, masks=torch.ones_like(timesteps),
        )  # fmt: skip
        output: torch.Tensor = self._algo._last_output(self.network, self._algo._tensors(batch, exporting=True))
        if self._algo._is_discrete:
            return output.argmax()
        scaler = self._algo.action_scaler
        return output if scaler is None else scaler.reverse_transform(output)


class DecisionTransformer(TransformerAlgoBase, config_class=DecisionTransformerConfig):
    """Decision Transformer; see `TransformerAlgoBase` for its loss.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        TypeError: If `device` has the wrong type.
    """

    def get_action_type(self) -> ActionSpace:
        return ActionSpace.CONTINUOUS


class DiscreteDecisionTransformer(TransformerAlgoBase, config_class=DiscreteDecisionTransformerConfig):
    """Decision Transformer for discrete actions; see `TransformerAlgoBase` for its loss.

    Args:
        config: Config of the algorithm.
        device: False or None for the CPU, True for the first GPU, the index of a GPU, or a name of PyTorch.
        enable_ddp: True to average gradients over the processes of PyTorch's default process group.
        impl: Agent to use. If None, `create_impl` builds an agent.

    Raises:
        ValueError: If the config has an `action_scaler`.
        TypeError: If `device` has the wrong type.
    """

    def get_action_type(self) -> ActionSpace:
        return ActionSpace.DISCRETE

    def update(self, batch: TrajectoryMiniBatch) -> dict[str, float]:
        """Make one update, and set the learning rate of the next one, the metric `learning_rate`.

        The rate grows linearly for `warmup_tokens` steps of the data, then it falls as a cosine, at most to a tenth.
        Files do not contain the number of these steps, as in d3rlpy. With `enable_ddp`, those of all processes count.

        Args:
            batch: Minibatch of `sample_trajectory_batch`. The algorithm scales its values.

        Raises:
            NotFittedError: If the networks are not built.
            NonFiniteError: If the loss or a gradient is NaN or infinite.
        """
        built, first, n_new = self._built, self.config.warmup_tokens, int(batch.masks.sum())
        with offline.learners(self):
            metrics, group = super().update(batch), built.agent.learner_group
            built.n_tokens = n = built.n_tokens + (n_new if group is None else sum(group.of_all(n_new)))
        progress = (n - first) / max(1, self.config.final_tokens - first)
        factor = n / first if n < first else max(0.1, (1 + math.cos(math.pi * progress)) / 2)
        for parameters in built.modules.optim.optim.param_groups:
            parameters["lr"] = self.config.learning_rate * factor
        return metrics | {"learning_rate": self.config.learning_rate * factor}
