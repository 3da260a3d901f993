"""The record of a refused update, and making the update again."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from agent_parts import make_agent, make_batch
from on_policy_parts import ON_POLICY, make_nets, make_on_policy
from registry import arguments_of, obs_size
from torch import Tensor, nn

from pfrl_like import agents
from pfrl_like.batch import Batch
from pfrl_like.cli import main
from pfrl_like.debug.crash_replay import RerunError, _read_batch, diagnosis_record, rerun_crash
from pfrl_like.errors import CheckpointError, NonFiniteError
from pfrl_like.experiments import replay_crash, train_agent
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.runs.secrets import MASK
from pfrl_like.storage import load_tensors
from pfrl_like.testing import Chain


class Root(nn.Module):
    """Square root of the numbers above some limit, which random noise may bring below it."""

    def __init__(self, noise: float = 0.0) -> None:
        super().__init__()
        self.noise = noise

    def forward(self, x: Tensor) -> Tensor:
        return (x + 5.0 + self.noise * torch.randn_like(x)).sqrt()


def make(noise: float = 0.0) -> Any:
    torch.manual_seed(0)
    q_function = nn.Sequential(nn.Linear(5, 4), Root(noise), nn.Linear(4, 2), DiscreteActionValueHead())
    return make_agent(q_function=q_function)


def refused(agent: Any, outdir: Path, scale: float = 100.0, noise: float = 0.0) -> None:
    """A run whose updates at step 20 get observations that are too large, or too much noise."""

    def spoil(env: Any, agent: Any, t: int) -> None:
        if t == 20:
            agent.model[1].noise = noise
            batch = make_batch(0)
            batch = batch.replace(obs=scale * batch.obs, next_obs=scale * batch.next_obs)
            for _ in range(50):
                agent.update(batch)

    with pytest.raises(NonFiniteError):
        train_agent(agent, Chain(time_limit=7), 30, outdir, step_hooks=[spoil])


@pytest.mark.slow
def test_the_update_is_made_again_from_streams_before_it(tmp_path: Path) -> None:
    agent = make()
    refused(agent, tmp_path, scale=1.0, noise=2.0)  # it is the noise that ends it, in one update of several
    fresh, before, stream = make(noise=2.0), agent.optim_t, torch.get_rng_state()
    found = replay_crash(fresh, tmp_path / "crash-20")
    assert found.error is not None and found.layer["name"] == "model.1"
    assert torch.equal(torch.get_rng_state(), stream) and fresh.optim_t == before
    quiet = replay_crash(make(), tmp_path / "crash-20")  # another layer: the same update without noise
    assert quiet.error is None and quiet.layer is None


@pytest.mark.parametrize("name", ["continuation", "future"])  # records of before have the second
def test_the_steps_after_a_minibatch_are_read(name: str, tmp_path: Path) -> None:
    row, none = torch.zeros(1), torch.zeros(0)
    after = {"first": torch.tensor([-1]), **dict.fromkeys(("reward", "discount", "next_obs", "after", "cut"), none)}
    fields = {"obs": row, "action": row, "reward": row, "next_obs": row, "discount": row, name: after}
    torch.save(fields, tmp_path / "batch.pt")
    batch = _read_batch(str(tmp_path / "batch.pt"))
    assert batch.continuation is not None and batch.continuation.first.tolist() == [-1]


def test_agents_are_not_changed_by_a_diagnosis() -> None:
    kind = agents.TD3
    agent = kind(**arguments_of(kind))
    g = torch.Generator().manual_seed(0)
    obs, next_obs = torch.randn(2, 8, obs_size(kind), generator=g)
    batch = Batch(obs, torch.rand(8, 2), torch.randn(8), next_obs, torch.full((8,), 0.9))
    for _ in range(3):
        agent.update(batch)
    before, stream = json.dumps(agent.saved_state()), torch.get_rng_state()
    parts = [getattr(agent, name) for name in agent.saved_attributes if "optimizer" not in name]
    parameters = [param.clone() for part in parts for param in part.parameters()]
    found = agent.diagnose(batch)
    assert found.error is None and any(name.startswith("q_func1.") for name in found.gradients)
    bad = agent.diagnose(batch.replace(reward=batch.reward * np.nan))
    assert bad.error is not None and bad.layer is None
    after = [param for part in parts for param in part.parameters()]
    assert all(map(torch.equal, parameters, after))
    assert json.dumps(agent.saved_state()) == before and torch.equal(torch.get_rng_state(), stream)


def test_a_compiled_update_is_diagnosed_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda region, **_: region)  # which would take half a minute
    q_function = nn.Sequential(nn.Linear(5, 4), Root(), nn.Linear(4, 2), DiscreteActionValueHead())
    agent = make_agent(q_function=q_function, compile=True)
    batch = make_batch(0)
    for _ in range(3):
        agent.update(batch)
    bad = batch.replace(obs=torch.linspace(-1e3, 1e3, 5) * batch.obs.abs())
    with pytest.raises(NonFiniteError) as refusal:
        agent.update(bad)
    assert refusal.value.batch is bad
    found = agent.diagnose(bad)
    assert found.error is not None and found.layer["name"] == "model.1"
    regions = len(agent._compiled._regions)
    agent.update(batch)
    assert len(agent._compiled._regions) == regions and agent.optim_t == 4


def test_parameters_that_are_not_finite_are_named_and_cannot_be_saved(tmp_path: Path) -> None:
    agent = make()

    def spoil(env: Any, agent: Any, t: int) -> None:
        agent.model[2].bias.data.fill_(torch.inf if t == 15 else 0.0)

    with pytest.raises(NonFiniteError):
        train_agent(agent, Chain(time_limit=7), 30, tmp_path, step_hooks=[spoil])
    record = json.loads((tmp_path / "crash-16" / "crash.json").read_text())
    assert record["parameters"] == ["model.2.bias"] and "model.2.bias" in record["agent_not_saved"]
    with pytest.raises(CheckpointError, match="contains no agent: model"):
        replay_crash(make(), tmp_path / "crash-16")


class Fault(nn.Module):
    """What comes in, or NaN where somebody is to learn from it."""

    learns: bool = True

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.nan if torch.is_grad_enabled() and not self.learns else x


@pytest.mark.representatives(2)
@pytest.mark.parametrize(("kind", "recurrent"), [*((kind, False) for kind in ON_POLICY), ("PPO", True)])
def test_what_an_agent_collected_itself_is_learnt_from_again(kind: str, recurrent: bool, tmp_path: Path) -> None:
    def make_faulty(learns: bool) -> Any:
        torch.manual_seed(0)
        policy, vf = make_nets(recurrent)
        policy[1] = Fault()  # type: ignore[index]
        policy[1].learns = learns  # type: ignore[index]
        return make_on_policy(kind, recurrent, nets=(policy, vf), phi=lambda obs: np.float32(2) * obs)

    with pytest.raises(NonFiniteError):
        train_agent(make_faulty(False), Chain(time_limit=7), 30, tmp_path)
    (folder,) = tmp_path.glob("crash-*")
    record = json.loads((folder / "crash.json").read_text())
    assert record["layer"]["class"] == "Fault" and record["error"] == record["error_again"]
    assert record["layer"]["input"][0]["not_finite"] == 0 < record["layer"]["output"][0]["not_finite"]
    low, high = record["layer"]["input"][0]["range"]
    assert -100 < low < high < 100 and record["parameters"] == []
    assert load_tensors(str(folder / "gradients.pt")).keys() == record["gradients"].keys()
    assert record["gradients"] or kind == "TRPO"  # its first gradient is not stored in the parameters
    assert replay_crash(make_faulty(False), folder).layer == record["layer"]
    assert replay_crash(make_faulty(True), folder).error is None


PROGRAM = """
import sys, warnings
sys.path[:0] = {path!r}
from pathlib import Path
from test_crash_replay import make, refused
from pfrl_like.experiments import prepare_output_dir, train_agent
from pfrl_like.testing import Chain
noise, outdir = float(sys.argv[1]), Path(sys.argv[2])
train_agent(make(noise), Chain(time_limit=7), 12, outdir / "other")
outdir = prepare_output_dir(dict(noise=noise), outdir, "run")
refused(make(noise), Path(outdir))
"""


@pytest.mark.slow
def test_the_command_starts_the_program_again_and_leaves_the_run_alone_wherever_it_is_now(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.py"
    tests = Path(__file__).parents[2] / "support"
    program.write_text(PROGRAM.format(path=[str(tests), str(Path(__file__).parent)]))
    subprocess.run([sys.executable, "program.py", "0", "runs"], cwd=tmp_path, check=True)

    (tmp_path / "runs").rename(tmp_path / "moved")

    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in tmp_path.glob("[mr]*/**/*") if path.is_file()}

    before, crash = files(), str(tmp_path / "moved" / "run" / "crash-20")
    assert main(["replay-crash", crash]) == 0
    out, err = capfd.readouterr()
    assert "the output of model.1 (Root) is the first that is not finite; its input is finite" in out
    assert out.count("the loss is nan") == 2 and "program.py 0 runs" in err and files() == before
    assert main(["replay-crash", crash, "--", sys.executable, "-c", "pass"]) == 2
    assert "has ended with code 0 before it trained an agent" in capfd.readouterr().err


def test_a_record_decides_on_no_variables_but_those_that_numbers_may_depend_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MKL_NUM_THREADS", "1")
    settings = {"PYTHONPATH": "evil", "LD_PRELOAD": "evil", "OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": None}
    record = {"settings": settings, "directory": str(tmp_path), "started_as": ["python", "-c", "pass"]}
    tell = "import json, os; json.dump(dict(os.environ), open('told', 'w'))"
    with pytest.raises(RerunError, match="has ended with code 0"):
        rerun_crash(record, str(tmp_path), crash=str(tmp_path), command=[sys.executable, "-c", tell])
    told = json.loads((tmp_path / "told").read_text())
    assert told["OMP_NUM_THREADS"] == "3" and "MKL_NUM_THREADS" not in told and "evil" not in told.values()


def test_texts_of_a_crash_have_no_secrets() -> None:
    found = SimpleNamespace(error="token=a is not finite", layer=None, parameters=[], gradients={})
    assert diagnosis_record(found)["error_again"] == f"token={MASK} is not finite"


def test_of_a_program_that_cannot_be_started_nobody_says_that_it_is(tmp_path: Path, capsys: Any) -> None:
    record = {
        "t": 3, "error": "", "parameters": ["w"], "layer": None, "gradients": {}, "settings": {},
        "directory": str(tmp_path), "started_as": ["python", "train.py", f"--token={MASK}"],
    }  # fmt: skip
    (tmp_path / "crash.json").write_text(json.dumps(record))
    assert main(["replay-crash", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    reason = "the secrets of its command line are not recorded; pass secrets in environment"
    assert f"cannot be started: {reason}" in err and "starting" not in err
