"""Compiled functions of tensors. Their later calls run the generated code without the compiler's wrappers.

For networks of a few thousand parameters, the wrappers take longer than the computation. The wrappers include the frame
evaluation of TorchDynamo, the bookkeeping of AOTAutograd, and reading every parameter from its module. The first call
uses the wrappers, and `CompiledRegion` records the parameters and values that this call reads. Later calls pass the
recorded parameters directly to the generated code. If a recorded value has changed, or if direct calls are impossible,
a call uses the wrappers. Calls with and without the wrappers have the same results.

The compiler inlines small matrix products and the addition of biases into the generated code, because library calls
would take longer.
"""

import itertools
import logging
import operator
import threading
import time
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version
from torch.utils._pytree import tree_leaves, tree_map

_LOGGER = logging.getLogger(__name__)
_set_grad_enabled = torch._C._set_grad_enabled  # ten times as fast as `torch.no_grad`
_NUMBER = itertools.count()
#: Types of the compiler's guards that each call evaluates. A guard checks a value that the generated code depends on:
#: here numbers, strings, bools and None, on which a user's module may branch. Tensors and objects are checked by
#: `_TensorEntries` and by the key of `form`, which are much faster.
VALUE_GUARDS = ("EQUALS_MATCH", "CONSTANT_MATCH", "BOOL_MATCH", "NONE_MATCH", "GRAD_MODE", "DETERMINISTIC_ALGORITHMS")
#: Maximum number of multiplications in a matrix product that is inlined into the generated code.
SMALL_PRODUCT = 16384
#: Maximum number of keys of `form` for which a function is compiled. Calls with further keys run uncompiled.
MAX_FORMS = 8
#: Objects whose method `tell(text)` is called with a message when a compilation begins and when it ends.
LISTENERS: weakref.WeakSet[Any] = weakref.WeakSet()


class CompiledFunction:
    """Function of tensors that is compiled for each combination of shapes, dtypes and strides of its arguments.

    The first call of a run with a combination is uncompiled. The second call compiles the function. If the compiler
    fails, the function runs uncompiled, and a warning is logged.

    Args:
        function: Function whose arguments and results are tensors, or nested dicts and tuples of tensors.
        owner: Object whose attributes include all modules that the function calls.
        name: Name of the function in the log.
    """

    has_no_rng = True  # the generators of `owner` are found by themselves, see `random_streams.reachable`

    def __init__(self, function: Callable[..., Any], owner: Any, name: str) -> None:
        self._function, self._owner, self._name = function, owner, name
        self._regions: dict[Any, CompiledRegion | None] = {}
        self._forms: list[str] = []  # keys of `form` of all calls of the run, except those after the first `MAX_FORMS`

    def saved_state(self) -> dict[str, Any]:
        """Return the combinations for which the function is compiled."""
        return {"forms": self._forms}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `saved_state`: the first call with one of its combinations compiles the function."""
        self._forms = [*state["forms"]]

    def __getstate__(self) -> dict[str, Any]:
        return {"function": self._function, "owner": self._owner, "name": self._name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        CompiledFunction.__init__(self, **state)

    def __call__(self, *inputs: Any) -> Any:
        """Call the function and return its result."""
        try:
            key = form(inputs)
        except TypeError:  # arguments that are not tensors
            return self._function(*inputs)
        if key not in self._regions:
            if (name := repr(key)) not in self._forms:
                self._forms += [name] if len(self._forms) < MAX_FORMS else []
                return self._function(*inputs)
            self._regions[key] = CompiledRegion(self._function, lambda: holders_of(self._owner), self._name)
        region = self._regions[key]
        if region is None:  # it could not be compiled
            return self._function(*inputs)
        try:
            return region(*inputs)
        except torch._dynamo.exc.TorchDynamoException as error:
            _LOGGER.warning("%s cannot be compiled and runs uncompiled: %s", self._name, str(error).split("\n")[0])
            self._regions[key] = None
            return self._function(*inputs)


def form(value: Any) -> Any:
    """Return a dict key made of the shapes, dtypes and strides in an argument. One region serves one key.

    Raises:
        TypeError: If the argument contains an object that is not a tensor, dict, tuple or list.
    """
    if isinstance(value, Tensor):
        return value.shape, value.dtype, value.stride()
    if isinstance(value, Mapping):
        return tuple((name, form(item)) for name, item in value.items())
    if isinstance(value, tuple | list):
        return tuple(map(form, value))
    raise TypeError(f"value is {type(value).__name__}, expected tensors, or dicts, tuples and lists of tensors")


def holders_of(owner: Any) -> list[Mapping[Any, Any]]:
    """Return the dicts that contain an object's modules, their submodules and all their tensors."""
    attributes: Mapping[str, Any] = vars(owner)
    modules = [part for value in attributes.values() if isinstance(value, nn.Module) for part in value.modules()]
    return [attributes, *(h for part in modules for h in (part._parameters, part._buffers, part._modules, vars(part)))]


class CompiledRegion:
    """Compiled function of tensors, for arguments with one key of `form`.

    Args:
        function: Function whose arguments and results are tensors, or nested dicts and tuples of tensors.
        holders: Function that returns the dicts from which `function` reads its parameters and modules, for example the
            attributes of modules. If a module or tensor in a dict is replaced, `function` is compiled again.
        name: Name of the function in the log.
    """

    def __init__(
        self, function: Callable[..., Any], holders: Callable[[], Sequence[Mapping[Any, Any]]], name: str
    ) -> None:
        self._user_function, self._holders, self._name = function, holders, name
        self._lock = threading.Lock()
        self._backend: _RecordingBackend | None = None
        self._entries: _TensorEntries | None = None
        self._direct: Callable[[tuple[Any, ...]], Any] | None = None

    def __call__(self, *inputs: Any) -> Any:
        """Return the result of the function. The inputs must have the same key of `form` in every call."""
        inputs = _without_repeats(inputs)
        if self._direct is not None:
            result = self._direct(inputs)
            if result is not None:
                return result
        with self._lock:
            if self._backend is None or (self._entries is not None and not self._entries.are_unchanged()):
                self._compile()
            return self._call_and_record(inputs)

    def _compile(self) -> None:
        function = self._user_function
        options: Any = {"guard_filter_fn": lambda guards: [each.guard_type in VALUE_GUARDS for each in guards]}
        self._function = _with_own_code(lambda *inputs: function(*inputs))
        self._backend, self._entries = _RecordingBackend(self._name), None
        self._compiled: Callable[..., Any] = torch.compile(
            self._function, backend=self._backend.backend, fullgraph=True, dynamic=False, options=options
        )

    def _call_and_record(self, inputs: tuple[Any, ...]) -> Any:
        assert self._backend is not None
        self._direct = None
        self._backend.records.clear()
        with torch._dynamo.config.patch(trace_autograd_ops=True):
            result = self._compiled(*inputs)
        if len(self._backend.records) == 2:
            self._direct = self._make_direct_call(inputs, result, *self._backend.records)
        self._backend.records.clear()
        if self._direct is None:
            _LOGGER.debug("%s can only be called through the wrappers of torch.compile", self._name)
        return result

    def _make_direct_call(
        self, inputs: tuple[Any, ...], result: Any, before: tuple[Any, ...], after: tuple[Any, ...]
    ) -> Callable[[tuple[Any, ...]], Any] | None:
        """Return a function that calls the generated code directly, or None if direct calls are impossible.

        If a recorded value has changed, the returned function returns None and does not call the code.
        """
        (args, versions), (code, code_args, outputs) = before, after
        positions = {id(leaf): position for position, leaf in enumerate(tree_leaves(inputs))}
        numbers = {id(output): number for number, output in enumerate(outputs)}
        tensors = [arg for arg in args if id(arg) not in positions]
        entries, unchanged = _TensorEntries(self._holders(), tensors), self._values_unchanged(inputs)
        if (
            unchanged is None
            or [*map(id, args)] != [*map(id, code_args)]
            or not entries.complete
            or not all(id(leaf) in numbers for leaf in tree_leaves(result))
        ):
            return None
        filled = [(i, positions[id(arg)]) for i, arg in enumerate(args) if id(arg) in positions]
        template = [None if id(arg) in positions else arg for arg in args]
        written = [arg for arg, version in zip(args, versions, strict=True) if _version(arg) != version]
        build, entries_unchanged = _builder(result, numbers), entries.are_unchanged
        flat = all(isinstance(leaf, Tensor) for leaf in inputs)
        self._entries = entries

        def direct(inputs: tuple[Any, ...]) -> Any:
            if not (entries_unchanged() and unchanged(inputs)):
                return None
            leaves = inputs if flat else tree_leaves(inputs)
            args = template.copy()
            for i, position in filled:
                args[i] = leaves[position]
            grad_enabled = torch.is_grad_enabled()
            _set_grad_enabled(False)
            try:
                result = build(code(args))
            finally:
                _set_grad_enabled(grad_enabled)
            if written:
                increment_version(written)
            return result

        return direct

    def _values_unchanged(self, inputs: tuple[Any, ...]) -> Callable[[tuple[Any, ...]], bool] | None:
        """Return a function that evaluates the compiler's guards for inputs. None if PyTorch hides the guards."""
        try:
            from torch._dynamo.eval_frame import _debug_get_cache_entry_list as entries_of

            code, closure = self._function.__code__, self._function.__closure__ or ()
            local = dict(zip(code.co_freevars, (cell.cell_contents for cell in closure), strict=True))
            name = code.co_varnames[0]  # name of the tuple of arguments
            checks = [entry.guard_manager.check for entry in entries_of(code)]
            check = next(check for check in checks if check({**local, name: inputs}))
        except (ImportError, AttributeError, StopIteration):
            return None
        return lambda inputs: check({**local, name: inputs})


class _RecordingBackend:
    """Backend of `torch.compile` that calls TorchInductor and records arguments and results.

    The backend has no reference to the region, because the compiler keeps the backend as long as the region's code
    object exists.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        #: Two records of a call. The first contains the arguments of the whole function and their versions
        #: (`_version`), the second contains the generated code, its arguments and its results.
        self.records: list[tuple[Any, ...]] = []

    def backend(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile a graph for `torch.compile`."""
        from torch._inductor.compile_fx import compile_fx, compile_fx_inner
        from torch._inductor.decomposition import select_decomp_table

        records = self.records

        def inner_compile(graph: Any, example_inputs: Any, **options: Any) -> Any:
            code: Any = compile_fx_inner(graph, example_inputs, **options)

            def recorded_code(args: list[Any]) -> Any:
                code_args, outputs = tuple(args), code(args)
                records.append((code, code_args, outputs))
                return outputs

            recorded_code._boxed_call = True  # type: ignore[attr-defined]
            return recorded_code

        _report(f"compiling {self._name} (about 30 s, less if the compiler's cache contains the code)")
        start = time.perf_counter()
        aten = torch.ops.aten
        with torch._functorch.config.patch(enable_autograd_cache=False):  # the backend cannot record cached code
            compiled: Any = compile_fx(
                graph, example_inputs, inner_compile,
                # The code does not check sizes, because `form` checks them. Random numbers come from PyTorch's random
                # stream.
                config_patches={"cpp_wrapper": True, "size_asserts": False, "fallback_random": True},
                decompositions={**select_decomp_table(), aten.addmm.default: _addmm, aten.mm.default: _mm},
            )  # fmt: skip
        _report(f"compiled {self._name} in {time.perf_counter() - start:.1f} s")

        def recorded_call(*args: Any) -> Any:
            records.append((args, [*map(_version, args)]))
            return compiled(*args)

        return recorded_call


class _TensorEntries:
    """Dict entries that contain the tensors of a region, and the modules and functions that use these tensors.

    Args:
        holders: Dicts that contain the entries.
        tensors: Tensors that the region reads, except its inputs.
    """

    def __init__(self, holders: Sequence[Mapping[Any, Any]], tensors: Sequence[Tensor]) -> None:
        ids = {id(tensor) for tensor in tensors}
        entries = [
            (holder, name, value)
            for holder in holders
            for name, value in holder.items()
            if id(value) in ids or isinstance(value, _COMPARED_TYPES)
        ]
        #: True if the dicts contain every tensor in `tensors`.
        self.complete = ids <= {id(value) for _, _, value in entries}
        self._holders, self._names, self._values = [[place[i] for place in entries] for i in range(3)]
        modules = [value for value in self._values if isinstance(value, nn.Module)]
        hooks = [hook for module in modules for hook in (module._forward_hooks, module._forward_pre_hooks)]
        self._no_hooks = [hook for hook in hooks if not hook]
        self._tensors = [*tensors]
        self._forms = [form(tensor) for tensor in tensors]
        self._pointers = [tensor.data_ptr() for tensor in tensors]

    def are_unchanged(self) -> bool:
        """Return True if the dicts contain the same objects as before, without new hooks or other forms of tensors."""
        if any(self._no_hooks) or not all(map(operator.is_, map(_get, self._holders, self._names), self._values)):
            return False
        if [*map(Tensor.data_ptr, self._tensors)] != self._pointers:
            if [form(tensor) for tensor in self._tensors] != self._forms:
                return False
            self._pointers = [tensor.data_ptr() for tensor in self._tensors]
        return True


def _report(text: str) -> None:
    _LOGGER.info("%s", text)
    for listener in [*LISTENERS]:
        listener.tell(text)


_get: Callable[[Any, Any], Any] = dict.get
#: Types of dict values that each call compares: modules, which contain tensors, and functions, which use tensors.
_COMPARED_TYPES = (nn.Module, types.FunctionType, types.BuiltinFunctionType)


def _version(value: Any) -> int | None:
    """Return the number of in-place writes to a tensor. None if `value` is no tensor, or if PyTorch does not count."""
    return value._version if isinstance(value, Tensor) and not value.is_inference() else None


def _without_repeats(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Clone inputs that are the same object as an earlier input. Otherwise the code would require this in all calls."""
    if len({*map(id, inputs)}) == len(inputs):
        return inputs
    return tuple(
        tree_map(torch.clone, value) if any(value is earlier for earlier in inputs[:i]) else value
        for i, value in enumerate(inputs)
    )


def _builder(result: Any, numbers: Mapping[int, int]) -> Callable[[Sequence[Any]], Any]:
    """Return a function that nests a list of outputs in the same way as `result`.

    `numbers` contains the position of each tensor in the list, keyed by the tensor's id.
    """
    if isinstance(result, Tensor):
        return operator.itemgetter(numbers[id(result)])
    if isinstance(result, Mapping):
        named = {name: _builder(value, numbers) for name, value in result.items()}
        return lambda outputs: {name: value(outputs) for name, value in named.items()}
    parts = [_builder(value, numbers) for value in result]
    return lambda outputs: tuple([part(outputs) for part in parts])


def _mm(left: Tensor, right: Tensor) -> Any:
    """Compute a small matrix product as a sum, which the compiler inlines into the generated code."""
    size = left.shape[0] * left.shape[1] * right.shape[1]
    if left.device.type != "cpu" or not left.is_floating_point() or size > SMALL_PRODUCT:
        return NotImplemented
    return (left.unsqueeze(2) * right.unsqueeze(0)).sum(1)


def _addmm(bias: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
    """Compute a product plus bias, so that the compiler inlines the addition into the code after the product.

    The bias is added as `- (-bias)`, because the compiler would replace a product and a sum with one library call.
    """
    if beta != 1 or alpha != 1 or bias.device.type != "cpu" or not bias.is_floating_point():
        return NotImplemented
    return torch.mm(left, right) - (-bias)


def _with_own_code(function: Any) -> Any:
    """Return a copy of a function with a new code object, because the compiler counts compilations per code object.

    The compiler limits the number of compilations of a code object. If regions of several agents shared a code object,
    they would reach this limit.
    """
    code = function.__code__.replace(co_name=f"region_{next(_NUMBER)}")
    return types.FunctionType(code, function.__globals__, code.co_name, function.__defaults__, function.__closure__)
