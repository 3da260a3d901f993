"""Directories of saved agents that `load_agent` must reject, each a small change of a valid directory."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium

from pfrl_like.zoo.builder import Spaces
from pfrl_like.zoo.composition import evaluate, to_json
from pfrl_like.zoo.value_based import q_learning

#: Creates the file `RAN` in the current directory, if anything executes it as a command or as Python.
RAN = "ran"
_COMMAND, _PYTHON = f"touch {RAN}", f"open('{RAN}', 'w')"
_BILLION, _MANY = 10**9, 4_000_000  # more, and a little less, than any integer in a network may be
Change = Callable[[Any], None]


def saved(folder: Path, obs: Any = None, name: str = "DQN", **settings: Any) -> Any:
    """Save an agent with its composition, and return it."""
    obs = gymnasium.spaces.Box(-1, 1, (4,)) if obs is None else obs
    space = gymnasium.spaces.Discrete(2)
    composition = q_learning(name, Spaces(obs, space), **{"hidden_sizes": (8,)} | settings)
    env = gymnasium.Env[Any, Any]()
    env.action_space = space
    agent = evaluate(composition, {"env": env})
    agent.composition = to_json(composition)
    agent.save(folder)
    return agent


def without_copies(folder: Path) -> None:
    """Remove the copies under PFRL's names."""
    for name in ("model", "target_model", "optimizer"):
        (folder / f"{name}.pt").unlink()


def set_file(folder: Path, key: str, content: bytes | None, size: int | None = None) -> Path:
    """Replace a file and its entry in the manifest, with a correct checksum. Return the path of the file."""
    manifest = json.loads((folder / "manifest.json").read_text())
    entry = manifest["files"][key]
    path = folder / entry["name"]
    if content is not None:
        path.write_bytes(content)
        entry |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    if size is not None:
        os.truncate(path, size)
        entry["size"] = size
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return path


def change_composition(folder: Path, change: Change) -> None:
    """Change the composition in a directory."""
    composition = json.loads(set_file(folder, "composition.json", None).read_text())
    change(composition)
    set_file(folder, "composition.json", json.dumps(composition).encode())


# The calls of the valid composition.
LINEAR, RELU, LAST, _HEAD, SEQUENTIAL, PARAMETERS, _ADAM, BUFFER, EXPLORER, AGENT = range(10)


def _set(*path: Any, to: Any) -> Change:
    """Return a change of the value at a path below "calls"."""

    def change(composition: Any) -> None:
        *owners, last = path
        owner = composition["calls"]
        for step in owners:
            owner = owner[step]
        if isinstance(owner, list) and last == len(owner):
            owner.append(None)
        owner[last] = to

    return change


def _delete(*path: Any) -> Change:
    def change(composition: Any) -> None:
        *owners, last = path
        for step in owners:
            composition = composition[step]
        del composition[last]

    return change


def _top(name: str, to: Any) -> Change:
    return lambda composition: composition.update({name: to})


def _layer(function: str, *args: Any, **kwargs: Any) -> Change:
    """Replace the ReLU by another call."""
    return _set(RELU, to={"function": {"name": function}, "args": [*args], "kwargs": kwargs})


def _nested(levels: int, kind: str) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value] if kind == "list" else {kind: [value] if kind == "tuple" else {"a": value}}
    return value


def _chain(composition: Any, n: int, uses: int) -> None:
    """Put n modules before the agent. Each contains the one before, `uses` times."""
    calls = composition["calls"]
    agent = calls.pop()
    for _ in range(n):
        calls.append({"function": {"name": "nn.Sequential"}, "args": [{"call": len(calls) - 1}] * uses, "kwargs": {}})
    agent["args"][0] = {"call": len(calls) - 1}
    calls.append(agent)
    composition["value"] = {"call": len(calls) - 1}


def _transformer(**sizes: int) -> Change:
    return _layer("pfrl_like.nn.ReturnConditionedTransformer", {"call": LINEAR}, 2, {"call": LINEAR}, **sizes)


def changes() -> Iterator[tuple[str, Change]]:
    """Yield the names of invalid compositions, and the changes that make them of a valid one."""
    yield from _names()
    yield from _sizes()
    yield from _structures()
    yield from _types()


def _names() -> Iterator[tuple[str, Change]]:
    commands = ["os.system", "builtins.eval", "builtins.exec", "subprocess.Popen", "posix.system", "pty.spawn"]
    files = ["torch.load", "torch.hub.load", "shutil.rmtree", "runpy.run_path", "pickle.load", "importlib.reload"]
    near = ["nn.Module", "nn.functional.relu", "torch.nn.Linear", "nn", "", ".", "nn..Linear", "nn.Linear.__init__"]
    scripts = ["gymnasium.make", "replay_buffers.PersistentReplayBuffer", "experiments.train_agent"]
    for name in [*commands, *files, *near, *scripts, "agents.dqn.os.system", "q_functions.__loader__.load_module"]:
        yield f"name {name!r}", _layer(name, _PYTHON if "eval" in name or "exec" in name else _COMMAND)
    for name in ["__class__", "__init__", "__globals__", "__subclasses__", "apply", "load_state_dict", "forward"]:
        yield f"attribute {name}", _set(PARAMETERS, "function", "attribute", to=name)
    yield "attribute of a name", _set(PARAMETERS, "function", "of", to={"name": "nn.Linear"})
    yield "attribute of a text", _set(PARAMETERS, "function", "of", to=_COMMAND)
    yield "variable with code", _set(SEQUENTIAL, "variable", to=f"a; {_PYTHON}; b")
    yield "variable that is a keyword", _set(SEQUENTIAL, "variable", to="import")
    yield "argument with code", _set(RELU, "kwargs", f"a={_PYTHON}, b", to=1)
    yield "argument with underscores", _set(RELU, "kwargs", "__class__", to=1)
    yield "object with code", _set(RELU, "args", 0, to={"given": _PYTHON})
    yield "object that is missing", _set(AGENT, "args", 0, to={"given": "q_function"})


def _sizes() -> Iterator[tuple[str, Change]]:
    others = [0.5, {"float": "nan"}, {"float": "inf"}, "8", {"none": True}]
    for size in [_BILLION, _MANY, 10**12, 2**62, 10**30, -4, *others]:
        for call, place in ((LINEAR, 0), (LINEAR, 1), (LAST, 0)):
            yield f"size {size!r} of layer {call}, argument {place}", _set(call, "args", place, to=size)
    for n in (_BILLION, _MANY):
        yield f"layers of a GRU {n}", _layer("nn.GRU", 8, 8, num_layers=n)
        yield f"size of a GRU {n}", _layer("nn.GRU", 8, n)
        yield f"rows of an embedding {n}", _layer("nn.Embedding", n, 8)
        yield f"channels {n}", _layer("nn.Conv2d", 1, n, 3)
        yield f"kernel size {n}", _layer("nn.Conv2d", 1, 1, n)
        yield f"size of a normalisation {n}", _layer("nn.LayerNorm", n)
        yield f"number of returns {n}", _layer("torch.linspace", 0.0, 1.0, n)
        yield f"layers of a transformer {n}", _transformer(n_layers=n, hidden_size=64)
        yield f"size of a transformer {n}", _transformer(hidden_size=n)
        yield f"context of a transformer {n}", _transformer(context_size=n)
        yield f"heads of a transformer {n}", _transformer(n_heads=n)
        yield f"size of an observation {n}", _layer("pfrl_like.nn.EmpiricalNormalization", n)
        yield f"size of an action {n}", _layer("policies.GaussianHeadWithStateIndependentCovariance", n, "diagonal")
        yield f"number of cosines {n}", _layer("q_functions.CosineBasisLinear", n, 8)
    yield "size of the statistics", _set(AGENT, "kwargs", "minibatch_size", to=10**30)
    yield "another size of a layer", _set(LINEAR, "args", 1, to=16)
    yield "many results of an operation", _results


def _results(composition: Any) -> None:
    """Put 300 tensors of 0.8 MB into the agent. Only one of them is within the limit."""
    calls = composition["calls"]
    agent = calls.pop()
    calls += [{"function": {"name": "torch.linspace"}, "args": [0.0, 1.0, 200_000], "kwargs": {}}] * 300
    agent["kwargs"]["phi"] = [{"call": index} for index in range(len(calls) - 300, len(calls))]
    calls.append(agent)
    composition["value"] = {"call": len(calls) - 1}


def _structures() -> Iterator[tuple[str, Change]]:
    for index in (AGENT, RELU, -1, _BILLION, True, 0.0, "0"):
        yield f"call {index!r} inside call {RELU}", _set(RELU, "args", 0, to={"call": index})
    for kind in ("list", "tuple", "dict"):
        yield f"deep {kind}", _set(RELU, "args", 0, to=_nested(40, kind))
        yield f"very deep {kind}", _set(RELU, "args", 0, to=_nested(300, kind))
    yield "deep calls", lambda composition: _chain(composition, 60, 1)
    yield "calls with 2**25 paths", lambda composition: _chain(composition, 25, 2)
    yield "calls with 1000**3 paths", lambda composition: _chain(composition, 3, 1_000)
    yield "long list", _set(RELU, "args", 0, to=[0] * 300_000)
    yield "long text", _set(RELU, "args", 0, to="a" * 100_000)
    yield "many calls", lambda composition: composition["calls"].extend(composition["calls"][:1] * 5_000)
    yield "agent inside", _layer("agents.DQN", {"call": LINEAR})


def _types() -> Iterator[tuple[str, Change]]:
    for value in (None, {}, "calls", 5, [5], [[]], [None], [{}]):
        yield f"calls {value!r}", _top("calls", value)
    for value in (None, {}, [], 7, "agents.DQN", {"call": SEQUENTIAL}, {"name": "agents.DQN"}, [{"call": AGENT}]):
        yield f"value {value!r}", _top("value", value)
    for name in ("calls", "value"):
        yield f"no {name}", _delete(name)
    for name in ("function", "args", "kwargs"):
        yield f"no {name}", _delete("calls", RELU, name)
        for value in (None, 5, "a", {"a": 5}, [None]):
            yield f"{name} {value!r}", _set(RELU, name, to=value)
    yield "function that is a call", _set(RELU, "function", to={"call": LINEAR})
    yield "function that is given", _set(RELU, "function", to={"given": "env"})
    empty: dict[str, Any] = {}
    for value in ({"name": 5}, {"given": 5}, {"tuple": 5}, {"dict": [5]}, {"float": "1"}, {"none": 1}, {"a": 1}, empty):
        yield f"argument {value!r}", _set(RELU, "args", 0, to=value)
    yield "argument with two kinds", _set(RELU, "args", 0, to={"call": LINEAR, "none": True})
    yield "further entry of a call", _set(RELU, "source", to=_PYTHON)
    yield "further entry", _top("source", _PYTHON)
    yield "too many arguments", _set(AGENT, "args", to=[0] * 50)
    yield "unknown argument", _set(AGENT, "kwargs", "unknown", to=1)
    yield "argument given twice", _set(AGENT, "kwargs", "gamma", to=0.9)
    yield "missing argument", _delete("calls", AGENT, "args", 4)
    yield "another agent", _set(AGENT, "function", "name", to="agents.DoubleDQN")
    yield "module that is a number", _set(AGENT, "args", 0, to=1)


def file_changes() -> Iterator[tuple[str, Callable[[Path], Any]]]:
    """Yield names of damaged directories, and functions that damage a directory."""
    key = "composition.json"
    for content in (b"", b"[]", b"null", b"{", b"\xff\xfe", b'{"calls": [], "calls": []}', b'{"calls": NaN}'):
        yield f"composition {content!r}", lambda folder, content=content: set_file(folder, key, content)
    yield "very deep JSON", lambda folder: set_file(folder, key, b'{"calls": ' + b"[" * 100_000)
    yield "huge composition", lambda folder: set_file(folder, key, None, 10**11)
    yield "huge network", lambda folder: set_file(folder, "model.pt", None, 10**11)
    yield "large network of a sparse file", _sparse
    yield "large file beside the agent", _large_beside
    program = f"cposix\nsystem\n(S'{_COMMAND}'\ntR.".encode()
    yield "pickle in place of a network", lambda folder: set_file(folder, "model.pt", program)
    yield "missing composition", lambda folder: set_file(folder, key, b"{}").unlink()
    yield "missing network", lambda folder: set_file(folder, "model.pt", None).unlink()
    yield "changed composition", lambda folder: set_file(folder, key, None).write_bytes(b"{}")
    yield "name outside of the directory", lambda folder: _rename(folder, "../composition-0123abcd.json")
    yield "absolute name", lambda folder: _rename(folder, "/etc/hostname")
    for name in (key, "model.pt"):
        yield f"{name} is a link", lambda folder, name=name: _link(set_file(folder, name, None))


def _wide(folder: Path) -> None:
    """Make a layer of 4 MB, more than the files allow."""
    change_composition(folder, _set(LINEAR, "args", 1, to=200_000))


def _sparse(folder: Path) -> None:
    set_file(folder, "optimizer.pt", None, 1 << 30)  # without a block on the disk
    _wide(folder)


def _large_beside(folder: Path) -> None:
    (folder / "other.pt").write_bytes(bytes(1 << 20))
    _wide(folder)


def _rename(folder: Path, name: str) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["composition.json"]["name"] = name
    (folder / "manifest.json").write_text(json.dumps(manifest))


def _link(path: Path) -> None:
    target = path.rename(path.with_name("target"))
    path.symlink_to(target)
