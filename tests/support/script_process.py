"""Runs printed scripts in processes of their own, which import nothing of `pfrl_like.zoo`.

`python script_process.py` has imported the parts, and waits for lines with the path of a script and a number of steps.
The script runs in a copy of the process. With 0 steps, its agent is made and not trained.
"""

import contextlib
import hashlib
import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]


class ScriptRunner:
    """The process that runs scripts, as another process sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, path: Path, steps: int) -> dict[str, Any]:
        """Run a script with its outputs in the directory of its name.

        Returns:
            The checksum of its agent, and the modules of `pfrl_like.zoo` that it has imported.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        print(path, steps, file=self._process.stdin, flush=True)
        status = self._process.stdout.readline()
        assert status == "0\n", path.with_suffix(".log").read_text()
        answer: dict[str, Any] = json.loads(path.with_suffix(".json").read_text())
        return answer


@contextlib.contextmanager
def script_runner() -> Iterator[ScriptRunner]:
    """Context of a process that runs scripts."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, __file__], env={**os.environ, "PYTHONPATH": path}, **pipes) as process:
        yield ScriptRunner(process)
        process.communicate()


def digest(agent: Any) -> str:
    """Checksum of all modules and optimisers of an agent."""
    total = hashlib.sha256()
    for name, tensor in _tensors({name: getattr(agent, name) for name in agent.saved_attributes}):
        total.update(name.encode() + tensor.detach().numpy().tobytes())
    return total.hexdigest()


def _tensors(value: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Names and tensors in a state dict, or in dicts and lists of them."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif hasattr(value, "state_dict"):
        yield from _tensors(value.state_dict(), name)
    elif isinstance(value, dict | list | tuple):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _tensors(part, f"{name}.{key}")


def _write_answer(path: Path, steps: int) -> None:
    with open(path.with_suffix(".log"), "w") as log:
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)
    spec = importlib.util.spec_from_file_location("printed", path)
    assert spec is not None and spec.loader is not None
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    if steps:
        agent = script.main(steps=steps, outdir=str(path.with_suffix("")))
    else:
        script.utils.set_random_seed(script.SEED)
        agent = script.make_agent(script.make_env(1_000 * script.SEED))
    imported = [name for name in sys.modules if name.startswith("pfrl_like.zoo")]
    path.with_suffix(".json").write_text(json.dumps({"digest": digest(agent), "zoo": imported}))


def _serve() -> None:
    for part in ("agents", "datasets", "envs", "experiments", "explorers", "nn", "q_functions", "utils", "wrappers"):
        importlib.import_module(f"pfrl_like.{part}")
    fork = multiprocessing.get_context("fork")
    for line in sys.stdin:
        path, steps = line.split()
        process = fork.Process(target=_write_answer, args=(Path(path), int(steps)))
        process.start()
        process.join()
        print(process.exitcode, flush=True)


if __name__ == "__main__":
    _serve()
