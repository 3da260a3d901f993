"""Replay buffers are found wherever an agent or a source holds them, and go on with the run."""

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import gymnasium
import numpy as np
import pytest
import torch
from resume_parts import noisy_env, small_dqn
from run_parts import Stopped, resumed, state_of_checkpoint, stop_at

from pfrl_like.agents import DQN
from pfrl_like.dataset import MDPDataset
from pfrl_like.experiments import run_state as own_attributes
from pfrl_like.experiments import train_agent, train_agent_batch
from pfrl_like.experiments.run_state import OwnAttributes, buffers_of, find_buffers
from pfrl_like.replay_buffers import ReplayBuffer


class Own:
    """Like a replay buffer."""

    def __init__(self) -> None:
        self.stored: deque[Any] = deque(maxlen=10)

    def append(self, step: Any) -> None:
        self.stored.append(step)

    def sample(self, n: int) -> Any:
        return list(self.stored)[:n]


def test_buffers_have_the_names_of_the_way_to_them() -> None:
    first, second, third, fourth = (ReplayBuffer(3) for _ in range(4))
    agent = SimpleNamespace(parts=[SimpleNamespace(buffer=second, same=first)], buffer=first)
    source = SimpleNamespace(agent=agent, buffer=third, by_name={"a/b": fourth}, again=second)
    found = buffers_of(agent, source, None)
    assert found == {"buffer": first, "again": second, "buffer-2": third, "by_name-a-b": fourth}
    assert list(buffers_of(agent)) == ["buffer", "parts-0-.buffer"]


def test_what_is_like_a_buffer_and_is_none_is_told_of() -> None:
    data = MDPDataset(np.zeros((2, 1)), [0, 1], [0, 1], [0, 1], discrete_action=True, reward_convention="next_row")
    parts, view = [ReplayBuffer(3)], ReplayBuffer(3).memory
    agent = SimpleNamespace(memory=Own(), queue=deque(), parts=parts, data=data, view=view)
    _, [reason] = find_buffers(agent)
    assert reason.startswith("memory is a Own, which is no AbstractReplayBuffer") and len(buffers_of(agent)) == 2


# Which attributes of an object are looked at, as text, to find those that change


def test_data_are_not_written_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    monkeypatch.setattr(own_attributes, "to_json", written.append)
    mebibytes = np.zeros(1 << 18)
    OwnAttributes(SimpleNamespace(count=1, frames=mebibytes, recorded={"frames": [(mebibytes,)]}))
    assert written == [1]


def test_attributes_that_are_mocks_are_passed_over() -> None:
    owner = SimpleNamespace(count=1, part=mock.Mock(), many=[mock.MagicMock()])
    own = OwnAttributes(owner)
    owner.count = 2
    assert own.saved_state() == {"values": {"count": 2}, "lost": []}


# Hooks of the user's own that remember something: what cannot be saved or taken up is told, and ends no run


class Module(torch.nn.Linear):
    """A hook with a state dict of tensors."""

    def __init__(self) -> None:
        super().__init__(4, 2, dtype=torch.bfloat16)

    def __call__(self, clock: Any) -> None:
        with torch.no_grad():
            self.weight.add_(clock.t)


class Weight:
    """A hook with a tensor that is learned."""

    def __init__(self) -> None:
        self.weight = torch.zeros(3, requires_grad=True)

    def __call__(self, clock: Any) -> None:
        with torch.no_grad():
            self.weight.add_(clock.t)

    def state_dict(self) -> dict[str, Any]:
        return {"weight": self.weight}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.weight = state["weight"]


class Deep(Weight):
    """One with many dicts within each other."""

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {}
        for _ in range(11):
            state = {"further": state}
        return state


class Late(Weight):
    """One that has no state yet."""

    def state_dict(self) -> dict[str, Any]:
        raise RuntimeError("not now")


class Refusing(Weight):
    """One that takes no state."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise RuntimeError("not mine")


def run(outdir: Path, hooks: Sequence[Callable[[Any], None]], steps: int = 40, **options: Any) -> None:
    env = noisy_env(0)
    train_agent(small_dqn(env), env, steps, outdir, checkpoint_freq=25, hooks=hooks, **options)


def stopped(outdir: Path, hook: Any) -> None:
    with pytest.raises(Stopped):
        run(outdir, [hook, stop_at(30)])


@pytest.mark.parametrize("kind", [Module, Weight])
def test_tensors_of_hooks_go_on(kind: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    whole, other, came = kind(), kind(), kind()
    other.load_state_dict(whole.state_dict() if kind is Module else {"weight": torch.zeros(3, requires_grad=True)})
    run(tmp_path / "whole", [whole])
    stopped(tmp_path / "stopped", other)
    run(tmp_path / "stopped", [came], resume=True)
    assert resumed(tmp_path / "stopped")["reasons"] == []
    assert torch.equal(came.weight, whole.weight) and came.weight.requires_grad


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Deep, "the state of Deep cannot be saved: TypeError('it is nested too deeply"),
        (Late, "the state of Late cannot be saved: RuntimeError('not now')"),
        (Refusing, "Refusing did not take up its state: RuntimeError('not mine')"),
    ],
)
def test_what_cannot_be_saved_or_taken_up_is_told_and_ends_no_run(kind: Any, reason: str, tmp_path: Path) -> None:
    stopped(tmp_path, kind())
    assert (tmp_path / "25_checkpoint" / "run" / "manifest.json").exists()
    run(tmp_path, [kind()], resume=True)
    assert resumed(tmp_path)["resume"] == "approximate"
    assert any(each.startswith(reason) for each in resumed(tmp_path)["reasons"])


def test_what_an_agent_leaves_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsaved(self: Any) -> list[str]:
        return [] if self.t == 0 else ["its dreams are not saved"]

    monkeypatch.setattr(DQN, "unsaved", unsaved)
    stopped(tmp_path, Module())
    assert state_of_checkpoint(tmp_path)["reasons"] == ["its dreams are not saved"]
    run(tmp_path, [Module()], resume=True)
    assert (resumed(tmp_path)["resume"], resumed(tmp_path)["reasons"]) == ("approximate", ["its dreams are not saved"])


def test_what_an_agent_did_not_take_up_is_told(tmp_path: Path) -> None:
    env = noisy_env(0)
    stopped(tmp_path, Module())
    agent = small_dqn(env)
    agent.unsaved = lambda: ["its dreams are another's"]
    train_agent(agent, env, 40, tmp_path, checkpoint_freq=25, hooks=[Module()], resume=True)
    assert resumed(tmp_path)["reasons"] == ["its dreams are another's"]


class Unknown(gymnasium.Wrapper):  # type: ignore[type-arg]
    """An environment that cannot tell its state."""

    def saved_state(self) -> Any:
        raise OSError("no way")

    def restore_state(self, state: Any) -> None:
        """Never called."""


def test_a_checkpoint_says_itself_that_nobody_can_come_to_where_it_is(tmp_path: Path) -> None:
    one, several = Unknown(noisy_env(0)), gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="async")
    train_agent(small_dqn(one), one, 40, tmp_path / "one", checkpoint_freq=25)
    train_agent_batch(small_dqn(noisy_env(0)), several, 40, tmp_path / "several", checkpoint_freq=25)
    several.close()
    for name, reason in (("one", "OSError('no way')"), ("several", "AsyncVectorEnv")):
        state = state_of_checkpoint(tmp_path / name)
        assert state["resume"] == "approximate" and any(reason in each for each in state["reasons"])


class Outer:
    """An agent that hands everything on to another one."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name in ("act", "observe", "save", "load", "get_statistics"):
            return getattr(self.inner, name)
        raise AttributeError(name)

    def act(self, obs: Any) -> Any:
        return self.inner.act(obs)


def run_within(outdir: Path, **options: Any) -> Any:
    env = noisy_env(0)
    agent = small_dqn(env)
    train_agent(Outer(agent), env, 80, outdir, checkpoint_freq=25, **options)
    return agent


def test_an_agent_within_another_one_goes_on_with_its_buffer(tmp_path: Path) -> None:
    whole = run_within(tmp_path / "whole")
    with pytest.raises(Stopped):
        run_within(tmp_path / "stopped", hooks=[stop_at(60)])
    came = run_within(tmp_path / "stopped", resume=True)
    assert resumed(tmp_path / "stopped")["resume"] == "exact"
    assert len(came.replay_buffer) == len(whole.replay_buffer)
    assert all((a == b).all() for a, b in zip(whole.model.parameters(), came.model.parameters(), strict=True))
