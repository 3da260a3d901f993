"""Episodes are repeated by tapes, and where that fails it is told."""

import base64
import json
import random
import zlib
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from tape_parts import ENVS, Images, Noisy, Sim, seeded

from pfrl_like.envs import SerialVectorEnv, episode_tape
from pfrl_like.envs.episode_tape import EpisodeTape, RestoreResult
from pfrl_like.random_streams.streams import GlobalDraws, state_restorers
from pfrl_like.utils.plain_values import many_to_json
from pfrl_like.wrappers import Monitor
from pfrl_like.wrappers.atari_wrappers import EpisodicLifeEnv


def carried(tape: EpisodeTape, other: EpisodeTape) -> RestoreResult:
    return other.restore_state(json.loads(json.dumps(tape.saved_state(), allow_nan=False)))


def played(tape: Any, actions: Any) -> list[Any]:
    """What comes of some actions, with resets where episodes end."""
    came = []
    for action in actions:
        obs, *rest = tape.step(action)
        came.append([np.array(obs).tolist(), *rest[:-1]])
        if any(rest[1:-1]):
            came.append(np.array(tape.reset()[0]).tolist())
    return came


def test_a_tape_gives_what_the_environment_gives() -> None:
    env, other = (ENVS["in turn"]() for _ in range(2))
    tape = EpisodeTape(other)
    assert tape.reset().tolist() == env.reset().tolist() and tape.size == 3 and tape.action_space is other.action_space
    assert str(tape.step(0)) == str(env.step(0)) and tape.info == {}
    with pytest.raises(AttributeError, match="nothing"):
        _ = tape.nothing


def test_global_streams_stay_as_they_are() -> None:
    tape, other = (EpisodeTape(Noisy(True)) for _ in range(2))
    tape.reset()
    tape.step(0)
    random.random()
    state = random.getstate()
    assert carried(tape, other).exact and random.getstate() == state


def test_a_process_that_is_an_environments_alone_goes_on_with_its_streams() -> None:
    tape, other = (EpisodeTape(Noisy(True), alone=True) for _ in range(2))
    tape.reset()
    played(tape, [1] * 9)
    state = json.loads(json.dumps(tape.saved_state()))
    expected = played(tape, [2] * 20)
    np.random.random(5)
    assert other.restore_state(state).exact
    assert played(other, [2] * 20) == expected


def test_a_reset_with_a_seed_is_repeated_with_it() -> None:
    tape, other = (EpisodeTape(Noisy()) for _ in range(2))
    tape.reset(seed=12, options={"level": np.arange(2)})
    played(tape, [1, 1, 0])
    assert carried(tape, other).exact
    assert played(other, [1] * 15) == played(tape, [1] * 15)


@pytest.mark.parametrize("make", [Noisy, Sim])
def test_an_environment_that_was_not_reset_has_no_episode(make: Any) -> None:
    assert "was not reset" in carried(EpisodeTape(make()), EpisodeTape(make())).reason


def test_an_action_that_cannot_be_saved_is_told_of() -> None:
    class Lenient(Noisy):
        def step(self, action: Any) -> Any:
            return super().step(0)

    tape = EpisodeTape(Lenient())
    tape.reset()
    tape.step(object())
    arrival = carried(tape, EpisodeTape(Lenient()))
    assert not arrival.exact and "object cannot be saved" in arrival.reason


def test_an_environment_that_gives_its_state_has_a_tape_that_does_not_grow() -> None:
    tape = EpisodeTape(gymnasium.wrappers.TimeLimit(Sim(), 1000))
    tape.reset()
    lengths = []
    for _ in range(3):
        played(tape, [1] * 100)
        lengths.append(len(json.dumps(tape.saved_state())))
    assert max(lengths) - min(lengths) < 50


class Forgetful(Sim):
    """Does not take all of the state that it gives."""

    def set_state(self, state: Any) -> None:
        self._x = state["x"].copy()


class Dated(Sim):
    """Gives another state whenever it is asked."""

    def get_state(self) -> Any:
        return super().get_state() | {"date": random.SystemRandom().random()}


class Choosy(Sim):
    """Takes no state."""

    def set_state(self, state: Any) -> None:
        raise KeyError("y")


@pytest.mark.parametrize(
    ("make", "reason"),
    [(Forgetful, "returns a different state"), (Dated, "returns a different state"), (Choosy, "KeyError('y')")],
)
def test_an_environment_that_is_not_in_the_state_that_it_was_set_to_is_told_of(make: Any, reason: str) -> None:
    tape = EpisodeTape(make())
    tape.reset()
    played(tape, [1, 2])
    arrival = carried(tape, EpisodeTape(make()))
    assert not arrival.exact and reason in arrival.reason


def test_an_environment_that_has_no_state_before_its_reset_is_known_from_the_second_one_on() -> None:
    class Late(Sim):
        def get_state(self) -> Any:
            if not self._x.any():
                raise RuntimeError("not begun")
            return super().get_state()

    tape = EpisodeTape(Images(Late()))  # whose wrapper is unknown
    tape.reset()
    assert "not begun" in carried(tape, EpisodeTape(Images(Late()))).reason
    tape.step(1)
    tape.reset()
    tape.step(2)
    assert carried(tape, EpisodeTape(Images(Late()))).exact


def test_draws_that_begin_too_late_to_be_seen_are_told_of() -> None:
    class Late(Noisy):
        def __init__(self, first: int) -> None:
            super().__init__()
            self.first, self.count = first, 0

        def reset(self, **options: Any) -> Any:
            self.count = 0
            return super().reset(**options)

        def step(self, action: Any) -> Any:
            self.count += 1
            obs, *_ = super().step(action)
            return obs, random.random() if self.count > self.first else 0.0, False, False, {}

    for first, exact in ((100, True), (150, False)):
        tape = EpisodeTape(Late(first))
        tape.reset()
        for _ in range(170):
            random.random()
            tape.step(0)
        assert carried(tape, EpisodeTape(Late(first))).exact == exact


class Reusing(gymnasium.Env[Any, Any]):
    """Gives one array for ever, spoils the action, and draws globally from some step of its life on."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, draws_from: int) -> None:
        self.draws_from, self.steps, self.obs = draws_from, 0, np.zeros(2, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.length = 0
        self.obs[:] = 0
        return self.obs, {}

    def step(self, action: Any) -> Any:
        self.length += 1
        self.steps += 1
        self.obs += action
        if self.steps > self.draws_from:
            self.obs += np.random.rand()
        action[:] = np.nan
        return self.obs, 0.5, self.length == 20, False, {}


@pytest.mark.parametrize(("draws_from", "steps"), [(10_000, 5), (10_000, 190), (10_000, 215), (150, 419)])
def test_steps_that_wait_to_be_summed_up_are_known_as_they_were(draws_from: int, steps: int) -> None:
    tape, other = EpisodeTape(Reusing(draws_from)), Reusing(0 if steps > draws_from else draws_from)
    tape.reset()
    played(tape, np.linspace(-1, 1, steps, dtype=np.float32)[:, None])
    last, state = tape._last.tolist(), json.loads(json.dumps(tape.saved_state(), allow_nan=False))
    np.random.random(3)
    arrival = EpisodeTape(other).restore_state(state)
    assert (arrival.exact, arrival.reason, arrival.obs.tolist()) == (True, "", last)
    for other_sums in ([state["sums"][0] + 1, state["sums"][1]], [state["sums"][0], state["sums"][1] + 1]):
        assert not EpisodeTape(Reusing(draws_from)).restore_state({**state, "sums": other_sums}).exact


def test_states_of_streams_that_are_not_what_they_say_are_refused() -> None:
    nothing = "eNoDAAAAAAE="
    assert state_restorers({"calls": [], "states": nothing}) == {}
    for calls, states in (([[0, "numpy"]], nothing), ([[0, "other"]], nothing), ([], "x"), (5, nothing), ([], 5)):
        with pytest.raises(ValueError, match="cannot be read"):
            state_restorers({"calls": calls, "states": states})


@pytest.mark.slow
def test_states_that_stay_as_they_are_may_be_many() -> None:
    draws = GlobalDraws(1)
    draws.call(0, random.random)
    for position in range(1, 30_000):  # 2,509 bytes each
        draws.call(position, lambda: None)
    assert len(state_restorers(draws.to_plain())) == 30_000


def test_a_chain_of_states_is_not_longer_than_its_text_explains() -> None:
    calls = [[0, "torch"]] * 30_000
    states = base64.b64encode(zlib.compress(bytes(len(torch.get_rng_state()) * len(calls)), 9)).decode()
    with pytest.raises(ValueError, match="bytes, expected at most"):
        state_restorers({"calls": calls, "states": states})


def test_a_monitor_goes_on_counting(tmp_path: Path) -> None:
    folders = tmp_path / "one", tmp_path / "two"
    tape, other = (EpisodeTape(Monitor(seeded(Noisy()), folder, video_callable=False)) for folder in folders)
    tape.reset()
    played(tape, [1] * 30)
    tape.reset()  # cut off
    played(tape, [1] * 2)
    assert carried(tape, other).exact
    for method in ("get_total_steps", "get_episode_rewards", "get_episode_lengths"):
        assert getattr(other, method)() == getattr(tape, method)()


class Lives(gymnasium.Env[Any, Any]):
    """A game of three lives, of which none is known how long it lasts; plays the part of its own emulator."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.ale, self.left = self, 0

    def lives(self) -> int:
        return self.left

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.left = 3
        return self.np_random.random(1), {}

    def step(self, action: Any) -> Any:
        self.left -= int(self.np_random.random() < 0.2)
        return self.np_random.random(1), float(self.left), self.left == 0, False, {}


@pytest.mark.parametrize("count", range(1, 30, 4))
def test_a_game_is_repeated_from_its_last_true_reset(count: int) -> None:
    tape, other = (EpisodeTape(EpisodicLifeEnv(seeded(Lives()))) for _ in range(2))
    tape.reset()
    played(tape, [0] * count)
    assert carried(tape, other).exact
    assert played(other, [0] * 20) == played(tape, [0] * 20)


@pytest.mark.representatives(1)
@pytest.mark.parametrize("count", [5, 60])
def test_an_atari_game_with_sticky_actions_goes_on(count: int) -> None:
    gymnasium.register_envs(pytest.importorskip("ale_py"))

    def make() -> EpisodeTape:
        return EpisodeTape(EpisodicLifeEnv(gymnasium.make("ALE/Breakout-v5", obs_type="ram", frameskip=8)))

    tape, other = make(), make()
    tape.reset(seed=3)
    tape.env.needs_real_reset = True
    tape.reset()
    actions = np.random.RandomState(0).randint(4, size=count + 30).tolist()
    played(tape, actions[:count])
    assert carried(tape, other).exact
    assert played(other, actions[count:]) == played(tape, actions[count:])


class Odd:
    """Gives numbers as arrays of one element now and then, or always, and the same observation every time."""

    observation_space = action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, every: int) -> None:
        self.every, self.t = every, 0
        self.obs = np.zeros(2)

    def reset(self, **options: Any) -> Any:
        self.t = 0
        return self.obs, {}

    def step(self, action: Any) -> Any:
        self.t += 1
        self.obs += 1
        reward = self.t / 10
        return self.obs, (np.array([reward]) if self.t % self.every == 0 else reward), False, False, {}


@pytest.mark.parametrize("every", [1, 7])
def test_sums_do_not_depend_on_how_many_steps_come_at_a_time(every: int) -> None:
    tape = EpisodeTape(Odd(every))
    tape.reset()
    for t in range(300):
        obs = tape.step(0)[0]
        obs *= 0.5  # by an agent, after the environment
        if t % 11 == 0:
            tape.saved_state()
    tape.env.obs[:] = np.nan
    other = Odd(every)
    step = other.step

    def halving(action: Any) -> Any:
        if other.t:
            other.obs *= 0.5
        return step(action)

    other.step = halving  # type: ignore[method-assign]
    arrival = carried(tape, EpisodeTape(other))
    assert arrival.exact, arrival.reason


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a hundred whole numbers."""
    monkeypatch.setattr(episode_tape, "_MAX_ACTION_BYTES", 4000)


def way_of(tape: EpisodeTape) -> Any:
    return tape.saved_state()["way"]


class Endless(Noisy):
    """Its episodes end where one is told to."""

    def step(self, action: Any) -> Any:
        obs, reward, *_, info = super().step(0 if action < 0 else action)
        return obs, reward, action < 0, False, info


@pytest.mark.parametrize(("draws", "steps"), [(False, 100), (True, 1)])
@pytest.mark.usefixtures("little_room")
def test_an_episode_that_is_too_long_is_told_of_and_the_next_one_is_repeated(draws: bool, steps: int) -> None:
    """States of the global streams that the environment draws from take room, too."""
    tape, other = (EpisodeTape(seeded(Endless(draws)), alone=draws) for _ in range(2))
    tape.reset()
    played(tape, [1] * steps)
    assert way_of(tape) == "story"
    played(tape, [1] * 100)
    arrival = carried(tape, other)
    assert not arrival.exact and "too long to be replayed: its actions take more than 4,000 bytes" in arrival.reason
    before = len(json.dumps(tape.saved_state()))
    played(tape, [1] * 100)
    assert len(json.dumps(tape.saved_state())) - before < 50
    played(tape, [-1, 1, 0])
    state = json.loads(json.dumps(tape.saved_state()))
    expected = played(tape, [1] * 9)
    assert other.restore_state(state).exact
    assert played(other, [1] * 9) == expected


@pytest.mark.usefixtures("little_room")
def test_environments_share_the_room_for_actions() -> None:
    envs = SerialVectorEnv([Endless() for _ in range(4)])
    envs.record()
    envs.reset()
    for _ in range(25):
        envs.step([1] * 4)
    assert [told["way"] for told in envs.saved_state()["episodes"]] == ["story"] * 4
    envs.step([1] * 4)
    assert [told["way"] for told in envs.saved_state()["episodes"]] == ["unknown"] * 4


@pytest.mark.usefixtures("little_room")
def test_an_episode_that_was_short_enough_is_repeated_where_there_is_less_room() -> None:
    tape, other = EpisodeTape(Endless()), EpisodeTape(Endless(), num_envs=2)
    tape.reset(seed=3)
    played(tape, [1] * 99)
    assert carried(tape, other).exact
    assert way_of(other) == "story" and played(other, [1]) == played(tape, [1]) and way_of(other) == "unknown"


@pytest.mark.usefixtures("little_room")
def test_a_game_that_was_too_long_is_not_repeated_from_its_next_life() -> None:
    class Long(Lives):
        def step(self, action: Any) -> Any:
            self.left -= action
            return self.np_random.random(1), 0.0, self.left == 0, False, {}

    tape, other = (EpisodeTape(EpisodicLifeEnv(seeded(Long()))) for _ in range(2))
    tape.reset()
    played(tape, [0] * 101 + [1, 0])
    assert "too long" in carried(tape, other).reason
    played(tape, [1, 1, 0])
    assert carried(tape, other).exact


@pytest.mark.parametrize(
    "action",
    [3, 10**30, np.int64(3), np.arange(6, dtype=np.float32), np.arange(9.0), np.zeros((64, 64)), 0.1]
    + ["north", (1, np.arange(3.0)), {"arm": np.arange(6.0), "grip": 1}, [[1, 2], [3]]],
)
@pytest.mark.parametrize("alike", [True, False])
def test_actions_take_no_more_than_what_is_reckoned(action: Any, alike: bool) -> None:
    actions = [action] * 1000 + ([] if alike else [None])
    assert len(json.dumps(many_to_json(actions))) < 1000 * episode_tape._bytes_of(action) + 100


def test_there_is_room_for_a_million_steps_of_a_few_numbers() -> None:
    assert episode_tape._bytes_of(np.zeros(6)) * 10**6 < episode_tape._MAX_ACTION_BYTES
