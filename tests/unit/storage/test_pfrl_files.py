"""Snapshots and persistent buffers that PFRL 0.4 wrote; `tests/support/pfrl_files.py` made them."""

import pickle
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lab.hostile_tensors import archive, call, integer, name, text

from pfrl_like import agents, explorers, q_functions, replay_buffers
from pfrl_like.errors import CheckpointError
from pfrl_like.storage import load_tensors, read_pickle

DATA = Path(__file__).parents[2] / "data"
SNAPSHOT = DATA / "pfrl_0_4_snapshot"
PERSISTENT, EPISODIC = "PersistentReplayBuffer", "PersistentEpisodicReplayBuffer"


def make_agent() -> agents.DQN:
    model = q_functions.FCStateQFunctionWithDiscreteAction(2, 3, n_hidden_channels=4, n_hidden_layers=1)
    return agents.DQN(
        model, torch.optim.Adam(model.parameters()), replay_buffers.ReplayBuffer(8), 0.9, explorers.Greedy(),
        replay_start_size=4, minibatch_size=4, target_update_interval=4,
    )  # fmt: skip


def test_a_snapshot_of_pfrl_loads_with_its_counters_and_the_learning_rate_that_a_hook_left() -> None:
    agent = make_agent()
    agent.load_snapshot(str(SNAPSHOT), allow_pickle=True)
    rate = agent.optimizer.param_groups[0]["lr"]
    assert (type(rate), rate) == (float, float(np.interp(51, [1, 100], [1e-2, 0])))
    assert (agent.t, agent.optim_t, agent.cumulative_steps, len(agent.replay_buffer)) == (6, 3, 6, 6)
    agent.update(agent.replay_buffer.sample_batch(4, 0.9))


def test_a_pickled_buffer_of_a_snapshot_needs_allow_pickle() -> None:
    with pytest.raises(CheckpointError, match=r"replay_buffer\.pkl: .*pass allow_pickle=True"):
        make_agent().load_snapshot(str(SNAPSHOT))


def test_counters_of_a_snapshot_that_are_no_counts_are_refused(tmp_path: Path) -> None:
    shutil.copytree(SNAPSHOT, tmp_path, dirs_exist_ok=True)
    torch.save(-1, tmp_path / "t.pt")
    with pytest.raises(CheckpointError, match="invalid counters: t is -1"):
        make_agent().load_snapshot(str(tmp_path), allow_pickle=True)


@pytest.mark.parametrize("code", ["b1", "i1", "i8", "u4", "f2", "f8"])
def test_numpy_scalars_of_torch_save_become_numbers(code: str, tmp_path: Path) -> None:
    torch.save({"x": np.dtype(code).type(1)}, tmp_path / "x.pt")
    assert load_tensors(str(tmp_path / "x.pt")) == {"x": 1}


NUMBER = name("numpy", "dtype"), name("numpy._core.multiarray", "scalar"), name("_codecs", "encode")


def scalar(code: str = "f8", content: str = "\0" * 8, encoding: str = "latin1", state: bytes = b"") -> bytes:
    kind = call(NUMBER[0], text(code), b"\x89", b"\x88") + state
    return call(NUMBER[1], kind, call(NUMBER[2], text(content), text(encoding)))


HOSTILE = {
    "objects": scalar("O8"),
    "text": scalar("U2"),
    "a structure": scalar("f8,f8"),
    "too short": scalar(content="\0" * 4),
    "too long": scalar("f4"),
    "much": scalar("f8", "\0" * 1000),
    "another encoding": scalar(encoding="zlib"),
    "attributes of the dtype": scalar(state=b"}" + text("code") + text("O") + b"sb"),
    "an unknown byte order": scalar(state=b"(" + integer(3) + text("x") + b"tb"),
    "no dtype": call(NUMBER[1], text("f8"), call(NUMBER[2], text("\0" * 8), text("latin1"))),
    "no bytes": call(NUMBER[1], call(NUMBER[0], text("f8")), text("\0" * 8)),
    "a dtype as value": call(NUMBER[0], text("f8")),
    "bytes as value": call(NUMBER[2], text("a"), text("latin1")),
    "encoding of a dtype": call(NUMBER[0], call(NUMBER[2], text("f8"), text("latin1"))),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_crafted_numpy_scalar_is_refused(case: str, tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(archive(HOSTILE[case]))
    with pytest.raises(CheckpointError, match=r"x\.pt: "):
        load_tensors(str(tmp_path / "x.pt"))
    (tmp_path / "x.pt").write_bytes(archive(scalar()))
    assert load_tensors(str(tmp_path / "x.pt")) == {"x": 0}


def rewards(buffer: Any) -> list[float]:
    return [item[0]["reward"] for item in buffer.memory]


@pytest.mark.parametrize("kind", [PERSISTENT, EPISODIC])
@pytest.mark.parametrize("into", ["persistent", "in memory"])
def test_a_persistent_buffer_of_pfrl_is_read_on_request(kind: str, into: str, tmp_path: Path) -> None:
    source = str(DATA / f"pfrl_0_4_{kind}")
    plain = getattr(replay_buffers, kind.removeprefix("Persistent"))(100)
    buffer = plain if into == "in memory" else getattr(replay_buffers, kind)(tmp_path / "own", 100)
    with pytest.raises(CheckpointError, match="persistent buffer of PFRL; pass allow_pickle=True"):
        buffer.load(source)
    buffer.load(source, allow_pickle=True)
    assert rewards(buffer) == list(range(8))
    if kind == EPISODIC:
        assert [len(episode) for episode in buffer.sample_episodes(2)] == [4, 4]
    if into == "persistent":
        buffer.close()
        with getattr(replay_buffers, kind)(tmp_path / "own", 100) as again:
            assert rewards(again) == list(range(8))


@pytest.mark.parametrize("kind", [PERSISTENT, EPISODIC])
def test_a_directory_of_pfrl_is_not_opened_and_the_way_out_is_named(kind: str, tmp_path: Path) -> None:
    shutil.copytree(DATA / f"pfrl_0_4_{kind}", tmp_path / "old")
    for arguments in ({"dirname": tmp_path / "old"}, {"dirname": tmp_path / "new", "ancestor": tmp_path / "old"}):
        with pytest.raises(CheckpointError, match=r"new directory and call its method load\('.*old', allow_pickle=Tru"):
            getattr(replay_buffers, kind)(capacity=10, **arguments)
    assert not (tmp_path / "new").exists()


def test_a_damaged_directory_of_pfrl_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    shutil.copytree(DATA / f"pfrl_0_4_{PERSISTENT}", folder)
    data = folder / "rank0" / "chunk.0.data"
    content = data.read_bytes()
    buffer = replay_buffers.ReplayBuffer(10)
    for damaged, message in (
        (content[:-1], "names bytes"),
        (content[:9] + b"?" + content[10:], "a checksum differs at byte 0"),
    ):
        data.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=message):
            buffer.load(str(folder), allow_pickle=True)
    with pytest.raises(CheckpointError, match="expected a file or the directory of a persistent buffer of PFRL"):
        buffer.load(str(tmp_path), allow_pickle=True)
    assert len(buffer) == 0


def test_a_crafted_chunk_runs_nothing(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return print, ("trapped",)

    content = pickle.dumps([Trap()])
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "chunk.0.data").write_bytes(content)
    (tmp_path / "rank0" / "chunk.0.idx").write_bytes(struct.pack("QQQIi", 0, 0, len(content), zlib.crc32(content), 1))
    with pytest.raises(CheckpointError, match=r"names builtins\.print, which is not allowed"):
        read_pickle(str(tmp_path), allow_pickle=True)
