"""`GreedyPolicy`, an agent's greedy policy as a module, and the description of its inputs and outputs."""

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.overrides import TorchFunctionMode

from pfrl_like.batch import ACTION_MASK, first_leaf
from pfrl_like.errors import ExportError
from pfrl_like.export.features import find_preprocessing, leaves_of, named_leaves_of, nested_like
from pfrl_like.preprocessing.features import FeatureExtractor
from pfrl_like.utils.recurrent import unwrap_packed_sequences_recursive, wrap_packed_sequences_recursive

#: Treatment of random numbers. "fixed": the policy is deterministic. "input": the numbers are inputs of the policy.
NoiseMode = Literal["fixed", "input"]

_UNIFORM = frozenset((torch.rand, torch.rand_like))
_NORMAL = frozenset((torch.randn, torch.randn_like))


@dataclasses.dataclass(frozen=True)
class Draw:
    """Properties of the random numbers that one call of a policy samples.

    Attributes:
        uniform: True if the numbers are uniform in [0, 1), False if they are normal.
        per_row: Number of rows of random numbers for each observation. 0 if all observations share the numbers.
        shape: Shape of one row, or shape of all numbers if all observations share them.
        dtype: Dtype of the numbers.
    """

    uniform: bool
    per_row: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def input_shape(self) -> tuple[int | str, ...]:
        """Shape of the input for these numbers. The first axis is the batch, unless all observations share them."""
        if not self.per_row:
            return self.shape
        return ("batch", *([self.per_row] if self.per_row > 1 else []), *self.shape)

    def as_drawn(self, values: Tensor) -> Tensor:
        """Return the values of the input in the shape of the sampled numbers."""
        return values.flatten(0, 1) if self.per_row > 1 else values

    def fixed(self) -> Tensor:
        """Return fixed numbers, with a batch axis of size 1 unless all observations share them.

        Uniform numbers, for example quantile fractions, are evenly spaced along the last axis. Shared normal numbers,
        which are the noise of weights, are 0. Other normal numbers are sampled with a fixed seed.
        """
        shape = tuple(1 if size == "batch" else int(size) for size in self.input_shape)
        if self.uniform:
            steps = torch.arange(shape[-1] if shape else 1, dtype=self.dtype)
            return ((steps + 0.5) / len(steps)).expand(shape).clone()
        if not self.per_row:
            return torch.zeros(shape, dtype=self.dtype)
        return torch.randn(shape, dtype=self.dtype, generator=torch.Generator().manual_seed(0))

    def sample(self, batch: int, generator: torch.Generator) -> Tensor:
        """Return new random numbers with these properties, in the shape of the input."""
        draw = torch.rand if self.uniform else torch.randn
        shape = [batch if size == "batch" else int(size) for size in self.input_shape]
        return draw(shape, dtype=self.dtype, generator=generator)


class Draws(TorchFunctionMode):
    """Context that records or replaces the random numbers that torch functions sample.

    The context does not change the random stream.

    Args:
        numbers: Numbers that replace the sampled numbers, in the order of the calls and in the shape of the sampled
            numbers. If None, the sampled numbers are recorded.

    Attributes:
        drawn: For each recorded call a pair: True if the numbers are uniform, and the numbers.
    """

    def __init__(self, numbers: Sequence[Tensor] | None = None) -> None:
        super().__init__()
        self._numbers, self.drawn = None if numbers is None else iter(numbers), list[tuple[bool, Tensor]]()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Return the result of a torch function. If the function samples numbers, record or replace the numbers."""
        if func not in _UNIFORM and func not in _NORMAL:
            return func(*args, **(kwargs or {}))
        if self._numbers is not None:
            return next(self._numbers)
        before = torch.get_rng_state()
        numbers = func(*args, **(kwargs or {}))
        torch.set_rng_state(before)
        self.drawn.append((func in _UNIFORM, numbers))
        return numbers


def draws_of(act: Callable[[int], Any]) -> list[Draw]:
    """Run a policy, and return the properties of the random numbers that it samples.

    Args:
        act: Function that selects greedy actions for the given number of observations.

    Raises:
        ExportError: If the sampling calls cannot be determined.
    """
    few, more = (_recorded(act, batch) for batch in (2, 3))
    if [uniform for uniform, _ in few] != [uniform for uniform, _ in more]:
        raise ExportError("the number of calls that sample random numbers depends on the number of observations")
    return [_draw(uniform, a, b) for (uniform, a), (_, b) in zip(few, more, strict=True)]


def _recorded(act: Callable[[int], Any], batch: int) -> list[tuple[bool, Tensor]]:
    before = torch.get_rng_state()
    with Draws() as records:
        act(batch)
    drawn: list[tuple[bool, Tensor]] = records.drawn
    if not torch.equal(before, torch.get_rng_state()):
        torch.set_rng_state(before)
        raise ExportError("an unsupported function samples, expected torch.rand, randn, rand_like or randn_like")
    return drawn


def _draw(uniform: bool, few: Tensor, more: Tensor) -> Draw:
    if few.shape == more.shape:
        return Draw(uniform, 0, tuple(few.shape), few.dtype)
    per_row = more.shape[0] - few.shape[0]
    if few.shape[1:] != more.shape[1:] or (len(few), len(more)) != (2 * per_row, 3 * per_row):
        shapes = f"{tuple(few.shape)} for 2 observations, but {tuple(more.shape)} for 3"
        raise ExportError(f"the policy samples numbers of shape {shapes}, expected a difference only in the first axis")
    return Draw(uniform, per_row, tuple(few.shape[1:]), few.dtype)


#: Name of the batch axis in shapes.
BATCH = "batch"
#: Number of observations for tracing. Exporters would treat 1 as a constant.
EXAMPLES = 3


class Greedy(Protocol):
    """Copy of an agent for export. It acts greedily on the CPU."""

    features: FeatureExtractor
    recurrent_memory: Any

    def greedy_actions(self, obs: Any, action_mask: Any = None) -> tuple[Tensor, Any]:
        """Return the greedy actions for features, and the object that evaluates actions."""

    def batch_act(self, batch_obs: Any, *, action_mask: Any = None) -> Any:
        """Return the greedy actions for a list of raw observations."""


@dataclasses.dataclass(frozen=True)
class Port:
    """Input or output of an exported policy.

    Attributes:
        name: Name of the input or output.
        shape: Shape, with "batch" for the batch axis.
        dtype: Name of the NumPy dtype.
        part: If the observation is nested, the path of keys to this leaf, for example "desired_goal". Otherwise empty.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    part: str = ""

    def sizes(self, batch: int) -> tuple[int, ...]:
        """Return the shape for a batch of size `batch`."""
        return tuple(batch if size == BATCH else int(size) for size in self.shape)


@dataclasses.dataclass(frozen=True)
class Signature:
    """Inputs and outputs of an exported policy, in order.

    Attributes:
        inputs: First the leaves of the observation, `input_0`, `input_1`, ..., in the order of their sorted keys. Then
            `action_mask`, if masks are an input. Then the tensors of the recurrent state, `state_0`, `state_1`, ...,
            which are zeros at the start of an episode. Then `noise_0`, `noise_1`, ..., if noise is an input.
        outputs: First `action`. Then the tensors of the recurrent state, `next_state_0`, `next_state_1`, ..., to be
            passed as `state_0`, `state_1`, ... in the next step.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


class ExternalState:
    """Replacement for an agent's recurrent memory. The caller sets and reads its recurrent state.

    Args:
        state: Recurrent state before the step. None for the initial state.
    """

    def __init__(self, state: Any) -> None:
        self.state = state

    def forward(self, module: Any, obs: Any, training: bool, active: Any = None) -> Any:
        """Return the output of the module for one step."""
        leaf = first_leaf(obs)
        traced = torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]
        batch_sizes = torch._shape_as_tensor(leaf)[:1] if traced else torch.full((1,), leaf.shape[0])
        output, self.state = module(wrap_packed_sequences_recursive(obs, batch_sizes, None), self.state)
        return unwrap_packed_sequences_recursive(output)


class GreedyPolicy(nn.Module):
    """Module that maps tensors to an agent's actions in evaluation.

    Args:
        agent: Copy of the agent. Its networks become submodules of this module.
        stack: Raw observations for tracing: tensors [k, ...] with the nesting of one observation.
        action_mask: Action masks of the observations, [k, n_actions]. If None, masks are not an input.
        noise: Treatment of random numbers, "fixed" or "input".

    Attributes:
        signature: Inputs and outputs of the module.
        draws: Properties of the random numbers that each call samples.
        examples: Inputs for tracing.

    Raises:
        ExportError: If the agent cannot be exported.
    """

    def __init__(self, agent: Greedy, stack: Any, action_mask: Tensor | None, noise: NoiseMode) -> None:
        super().__init__()
        self._agent = agent
        self._preprocess = find_preprocessing(agent.features, stack)
        parts = {name: part for name, part in vars(agent).items() if isinstance(part, nn.Module)}
        if isinstance(agent.features.phi, nn.Module):
            parts["phi"] = agent.features.phi
        self.parts = nn.ModuleDict(parts)
        for part in self.modules():
            if isinstance(part, nn.RNNBase):
                part.forward = types.MethodType(_one_step, part)
        self._form, self._n_leaves = stack, len(leaves_of(stack))
        self._has_mask = action_mask is not None
        known = leaves_of(stack) if action_mask is None else [*leaves_of(stack), action_mask]
        known = [leaf[torch.arange(EXAMPLES) % len(leaf)] for leaf in known]
        self._state: Any = None
        self._state = self._act(known)[2]
        states = [torch.zeros_like(state) for state in leaves_of(self._state)]
        self.draws = draws_of(
            lambda batch: self._act([*(leaf[:batch] for leaf in known), *(state[:, :batch] for state in states)])
        )
        self._fixed = [draw.fixed() for draw in self.draws] if noise == "fixed" else None
        self.examples = [*known, *states, *(draw.sample(EXAMPLES, torch.Generator()) for draw in self.input_draws)]
        self.signature = self._signature(len(states))

    def forward(self, *inputs: Tensor) -> Any:
        """Return the actions, followed by the next recurrent state of a recurrent agent."""
        actions, _, state = self.evaluate(*inputs)
        return actions if state is None else (actions, *leaves_of(state))

    def evaluate(self, *inputs: Tensor) -> tuple[Tensor, Any, Any]:
        """Return the actions, the object that evaluates actions, and the next recurrent state."""
        with Draws(self.numbers(*inputs)):
            return self._act(inputs)

    def numbers(self, *inputs: Tensor) -> list[Tensor]:
        """Return the numbers that replace the sampled random numbers. They have the shapes of the sampled numbers."""
        if self._fixed is None:
            values: Sequence[Tensor] = inputs[len(inputs) - len(self.draws) :]
        else:
            batch = inputs[0].shape[0]
            values = [
                fixed.expand(batch, *fixed.shape[1:]) if draw.per_row else fixed
                for draw, fixed in zip(self.draws, self._fixed, strict=True)
            ]
        return [draw.as_drawn(each) for draw, each in zip(self.draws, values, strict=True)]

    @property
    def input_draws(self) -> list[Draw]:
        """The entries of `draws` if noise is an input, otherwise an empty list."""
        return self.draws if self._fixed is None else []

    def ports(self, name: str) -> list[Port]:
        """Return the inputs whose names begin with `name`."""
        return [port for port in self.signature.inputs if port.name.startswith(name)]

    def _act(self, inputs: Sequence[Tensor]) -> tuple[Tensor, Any, Any]:
        n = self._n_leaves
        mask = inputs[n] if self._has_mask else None
        if isinstance(self._form, Mapping) and mask is None:
            mask = nested_like(self._form, inputs).get(ACTION_MASK)
        memory = None
        if self._agent.recurrent_memory is not None:
            state = None if self._state is None else nested_like(self._state, inputs[n + self._has_mask :])
            memory = self._agent.recurrent_memory = ExternalState(state)
        actions, value = self._agent.greedy_actions(self._preprocess(inputs[:n]), mask)
        return actions, value, None if memory is None else memory.state

    def _signature(self, n_states: int) -> Signature:
        draws = {f"noise_{i}": draw for i, draw in enumerate(self.input_draws)}
        names = [f"input_{i}" for i in range(self._n_leaves)] + [ACTION_MASK] * self._has_mask
        names += [f"state_{i}" for i in range(n_states)]
        inputs = [_port(name, tensor) for name, tensor in zip(names, self.examples, strict=False)]
        for i, (part, _) in enumerate(named_leaves_of(self._form)):
            inputs[i] = dataclasses.replace(inputs[i], part=part)
        noise = [Port(name, draw.input_shape, _dtype(draw.dtype)) for name, draw in draws.items()]
        actions, _, state = self.evaluate(*self.examples)
        outputs = {"action": actions, **{f"next_state_{i}": leaf for i, leaf in enumerate(leaves_of(state))}}
        return Signature((*inputs, *noise), tuple(_port(name, tensor) for name, tensor in outputs.items()))


def _one_step(layer: Any, packed: Any, state: Any = None) -> tuple[Any, Any]:
    """Call `forward` of a recurrent layer for sequences of one step without packing, which exporters cannot trace."""
    time, is_packed = int(layer.batch_first), isinstance(packed, PackedSequence)
    rows = packed.data.unsqueeze(time) if is_packed else packed
    output, state = type(layer).forward(layer, rows, state)
    return packed._replace(data=output.squeeze(time)) if is_packed else output, state


def _port(name: str, tensor: Tensor) -> Port:
    shape: list[int | str] = [*tensor.shape]
    shape[int("state" in name)] = BATCH
    return Port(name, tuple(shape), _dtype(tensor.dtype))


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
