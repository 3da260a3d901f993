"""Wrappers of Atari games, on the real emulator."""

import copy
import pickle

import gymnasium
import gymnasium.spaces as spaces
import numpy as np
import pytest
from env_forms import InPfrlForm

from pfrl_like.envs.abc import ABC
from pfrl_like.wrappers import ContinuingTimeLimit, frames
from pfrl_like.wrappers import atari_wrappers as atari

pytest.importorskip("ale_py")
FIRE, RIGHT = 1, 2
SMALL = spaces.Box(0, 255, (83, 90), np.uint8)


def raw(game="Pong"):
    """A game in which an action lasts one frame."""
    gymnasium.register_envs(pytest.importorskip("ale_py"))
    return gymnasium.make(f"{game}NoFrameskip-v4")


class Counting(gymnasium.Env):
    """Observes the number of steps since the reset, in an image; the reward is -3 times it; done after `length`."""

    observation_space = spaces.Box(0, 255, (100, 90), np.uint8)
    action_space = spaces.Discrete(3)

    def __init__(self, length=100, info=None, truncates=False, **attributes):
        self.length, self.info, self.truncates, self.resets = length, info or {}, truncates, []
        vars(self).update(attributes)

    def get_action_meanings(self):
        return ["NOOP", "FIRE", "RIGHT"]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets.append((seed, options))
        self.t, self.actions = 0, []
        return self._obs(), {"at": 0}

    def step(self, action):
        self.t += 1
        self.actions.append(action)
        ended = self.t == self.length
        terminated = ended and not self.truncates and not self.info
        info = {"at": self.t, **(self.info if ended else {})}
        return self._obs(), -3.0 * self.t, terminated, ended and self.truncates, info

    def _obs(self):
        return np.full((100, 90), self.t, np.uint8)


def began(env):
    """An environment after its reset."""
    env.reset()
    return env


WRAPPERS = {
    "noop": atari.NoopResetEnv,
    "fire": atari.FireResetEnv,
    "skip": atari.MaxAndSkipEnv,
    "clip": atari.ClipRewardEnv,
    "warp": atari.WarpFrame,
    "scale": atari.ScaledFloatFrame,
    "flicker": atari.FlickerFrame,
    "stack": lambda env: atari.FrameStack(env, 2, "chw"),
    "limit": lambda env: ContinuingTimeLimit(env, 5),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_form_of_the_environment_inside_is_kept(name):
    env = WRAPPERS[name](Counting())
    assert isinstance(env, gymnasium.Wrapper)
    obs, info = env.reset(seed=1)
    assert env.observation_space.contains(np.asarray(obs)) and info["at"] == env.unwrapped.t
    assert len(env.step(0)) == 5
    four = WRAPPERS[name](InPfrlForm(Counting()))
    assert not isinstance(four, gymnasium.Env)
    assert np.asarray(four.reset()).shape == four.observation_space.shape
    assert len(four.step(0)) == 4
    assert type(pickle.loads(pickle.dumps(env))) is type(env) is type(copy.deepcopy(env))


# Openings


def test_noops_are_drawn_from_the_environments_stream_between_one_and_the_maximum():
    env = atari.NoopResetEnv(Counting(), noop_max=3)
    counts = []
    for seed in range(30):
        obs, info = env.reset(seed=seed)
        counts.append(len(env.unwrapped.actions))
        assert counts[-1] == np.random.default_rng(seed).integers(1, 4)
        assert obs[0, 0] == info["at"] == counts[-1] and set(env.unwrapped.actions) == {0}
    assert set(counts) == {1, 2, 3}


@pytest.mark.parametrize("info", [{}, {"needs_reset": True}])
@pytest.mark.parametrize("truncates", [False, True])
def test_an_episode_that_ends_in_its_opening_is_begun_anew_without_the_seed(info, truncates):
    env = atari.NoopResetEnv(Counting(length=3, info=info, truncates=truncates))
    env.override_num_noops = 4
    obs, reset_info = env.reset(seed=5, options={"a": 1})
    assert obs[0, 0] == reset_info["at"] == 1  # three steps, a reset, one step
    assert env.unwrapped.resets == [(5, {"a": 1}), (None, {"a": 1})]


def test_seed_method_seeds_the_next_reset_as_in_pfrl():
    env = atari.NoopResetEnv(Counting())
    env.seed(3)
    env.reset()
    env.reset()
    assert [seed for seed, _ in env.unwrapped.resets] == [3, None]


def test_fire_is_pressed_at_the_beginning():
    env = atari.FireResetEnv(Counting())
    obs, _ = env.reset()
    assert env.unwrapped.actions == [FIRE, RIGHT] and obs[0, 0] == 2
    assert atari.FireResetEnv(Counting(length=2)).reset()[0][0, 0] == 0  # over after both: begun anew


# Lives


class Lives(Counting):
    """Five lives; one is lost at step 2."""

    class Ale:
        def __init__(self, env):
            self.lives = lambda: 5 if env.t < 2 else 4

    @property
    def ale(self):
        return self.Ale(self)


@pytest.mark.parametrize("kwargs", [{"truncates": True}, {"info": {"needs_reset": True}}, {}])
def test_a_game_that_is_cut_off_is_begun_anew(kwargs):
    env = began(atari.EpisodicLifeEnv(Lives(length=1, **kwargs)))
    *_, terminated, truncated, info = env.step(0)
    assert terminated is (not kwargs) and truncated is kwargs.get("truncates", False)
    assert env.needs_real_reset
    assert env.reset(seed=None, options=None)[0][0, 0] == 0


def test_a_lost_life_ends_the_episode_and_a_seed_the_game():
    env = began(atari.EpisodicLifeEnv(Lives()))
    assert [env.step(0)[2] for _ in range(2)] == [False, True]
    assert env.reset()[0][0, 0] == 3 and env.lives == 4  # after one step that does nothing
    assert env.reset(seed=0)[0][0, 0] == 0 and env.lives == 5


def test_a_game_that_ends_in_the_step_after_a_lost_life_is_begun_anew():
    env = began(atari.EpisodicLifeEnv(Lives(length=3)))
    env.step(0)
    assert env.step(0)[2] is True and not env.needs_real_reset
    assert env.reset()[0][0, 0] == 0 and len(env.unwrapped.resets) == 2
    assert env.reset()[0][0, 0] == 0 and len(env.unwrapped.resets) == 3


# Skipped frames


def test_skipping_sums_rewards_and_takes_the_maximum_of_the_last_two_frames():
    darker = Counting()
    darker._obs = lambda: np.full((100, 90), 100 - darker.t, np.uint8)
    env = began(atari.MaxAndSkipEnv(darker, skip=3))
    obs, reward, *_, info = env.step(RIGHT)
    assert env.unwrapped.actions == [RIGHT] * 3
    assert obs[0, 0] == 98 and reward == -3.0 * (1 + 2 + 3) and info["at"] == 3


@pytest.mark.parametrize("kwargs", [{"truncates": True}, {"info": {"needs_reset": True}}, {}])
def test_skipping_stops_at_the_end_and_shows_the_true_last_frame(kwargs):
    env = began(atari.MaxAndSkipEnv(Counting(length=5, **kwargs), skip=4))
    assert env.step(0)[0][0, 0] == 4
    obs, reward, terminated, truncated, info = env.step(0)
    assert obs[0, 0] == 5 and reward == -15.0
    assert (terminated, truncated, "needs_reset" in info) == (not kwargs, "truncates" in kwargs, "info" in kwargs)


# Rewards and images


def test_rewards_become_their_signs():
    env = atari.ClipRewardEnv(Counting())
    assert [env.reward(reward) for reward in (-3, 0.0, 0.5, 200)] == [-1.0, 0.0, 1.0, 1.0]
    env.reset()
    assert env.step(0)[1] == -1.0


def test_grey_is_the_luminance():
    # 0.299 * 200 + 0.587 * 100 + 0.114 * 50 = 59.8 + 58.7 + 5.7 = 124.2
    assert frames.to_grey(np.full((100, 100, 3), (200, 100, 50), np.uint8))[5, 5] == 124


def test_a_pixel_is_the_mean_of_its_area(monkeypatch):
    image = np.zeros((5, 2), np.uint8)
    image[:, 0] = [0, 10, 20, 30, 40]
    image[:, 1] = [100, 100, 100, 100, 100]
    for opencv in (frames._opencv, lambda: None):
        monkeypatch.setattr(frames, "_opencv", opencv)
        # Two and a half rows each: (0 + 10 + 20/2) / 2.5 = 8 and (20/2 + 30 + 40) / 2.5 = 32; columns stay.
        assert frames.shrink(image, 2, 2).tolist() == [[8, 100], [32, 100]]


@pytest.mark.parametrize("height", [210, 250])  # of Atari's screens, NTSC and PAL
def test_frames_are_the_same_without_opencv(monkeypatch, height):
    pytest.importorskip("cv2")
    screens = list(np.random.default_rng(0).integers(0, 256, (20, height, 160, 3), dtype=np.uint8))
    screens += [np.repeat(screen[::7, ::5], 7, 0)[:height].repeat(5, 1)[:, :160] for screen in screens]
    with_opencv = [frames.shrink(frames.to_grey(screen), 84, 84) for screen in screens]
    monkeypatch.setattr(frames, "_opencv", lambda: None)
    without = [frames.shrink(frames.to_grey(screen), 84, 84) for screen in screens]
    np.testing.assert_array_equal(without, with_opencv)


def test_scaled_frames_are_divided_by_255():
    env = began(atari.ScaledFloatFrame(Counting()))
    obs = env.step(0)[0]
    assert obs.dtype == np.float32 and obs[0, 0] == np.float32(1) / np.float32(255)
    assert env.observation_space == spaces.Box(0, 1, (100, 90), np.float32)
    stacked = atari.ScaledFloatFrame(atari.FrameStack(Counting(), 2, "chw")).reset()[0]
    assert stacked.shape == (200, 90)


def test_half_of_the_frames_flicker():
    env = atari.FlickerFrame(Counting(length=250))
    env.reset(seed=0)
    seen = [int(env.step(0)[0][0, 0]) for _ in range(200)]
    draws = np.random.default_rng(0).random(201)[1:]
    assert seen == [t if draw >= 0.5 else 0 for t, draw in enumerate(draws, start=1)]


def test_environments_without_a_stream_flicker_by_the_global_one():
    env = atari.FlickerFrame(ABC())
    np.random.seed(0)
    dark = [not env.reset().any() for _ in range(20)]
    np.random.seed(0)
    assert dark == [np.random.random() < 0.5 for _ in range(20)]


# Stacks


def test_first_frame_counts_k_times_and_the_oldest_goes():
    env = atari.FrameStack(Counting(), 3, "chw")
    obs, _ = env.reset()
    assert np.asarray(obs)[::100, 0].tolist() == [0, 0, 0]
    assert [np.asarray(env.step(0)[0])[::100, 0].tolist() for _ in range(3)] == [[0, 0, 1], [0, 1, 2], [1, 2, 3]]
    assert np.asarray(env.reset()[0])[::100, 0].tolist() == [0, 0, 0]


def test_stacks_share_frames_and_keep_them_when_the_environment_reuses_its_array():
    class InPlace(Counting):
        frame = np.zeros((100, 90), np.uint8)

        def _obs(self):
            self.frame[:] = self.t
            return self.frame

    env = atari.FrameStack(InPlace(), 3, "chw")
    first, _ = env.reset()
    second = env.step(0)[0]
    assert all(a is b for a, b in zip(first._frames[1:], second._frames[:2], strict=True))
    assert np.asarray(first)[::100, 0].tolist() == [0, 0, 0]


@pytest.mark.parametrize(("order", "shape", "axis"), [("hwc", (84, 84, 4), 2), ("chw", (4, 84, 84), 0)])
def test_frames_are_joined_along_the_channels(order, shape, axis):
    env = atari.wrap_deepmind(atari.make_atari("PongNoFrameskip-v4"), channel_order=order)
    before = env.reset(seed=0)[1]["episode_frame_number"]
    for _ in range(20):
        obs, *_, info = env.step(FIRE)
    assert 1 <= before <= 30 and info["episode_frame_number"] == before + 20 * 4
    assert isinstance(obs, atari.LazyFrames)
    assert obs.shape == np.asarray(obs).shape == env.observation_space.shape == shape
    assert (obs.ndim, obs.dtype, len(obs)) == (3, np.uint8, shape[0])
    for i, frame in enumerate(env.frames):
        np.testing.assert_array_equal(np.asarray(obs).take([i], axis), frame)
    np.testing.assert_array_equal(obs[2], np.asarray(obs)[2])
    assert np.asarray(obs, np.float32).dtype == np.float32


def test_the_number_of_frames_may_be_numpys():
    env = Counting(observation_space=spaces.Box(0, 255, (1, 2, 2), np.uint8))
    assert atari.FrameStack(env, np.int64(3), "chw").frames.maxlen == 3


# Whole games


@pytest.mark.parametrize(("max_frames", "bound"), [(50, 50), (None, None), (0, None)])
def test_a_game_has_so_many_frames(max_frames, bound):
    env = atari.make_atari("PongNoFrameskip-v4", max_frames=max_frames)
    assert env.spec.kwargs["max_num_frames_per_episode"] == bound


def test_deepminds_wrappers_are_chosen_one_by_one():
    def layers(**kwargs):
        env, names = atari.wrap_deepmind(atari.make_atari("BreakoutNoFrameskip-v4"), **kwargs), []
        while not isinstance(env, atari.MaxAndSkipEnv):
            names.append(type(env).__name__)
            env = env.env
        return " ".join(names)

    assert layers() == "FrameStack ClipRewardEnv WarpFrame EpisodicLifeEnv"
    assert layers(episode_life=False, clip_rewards=False, frame_stack=False) == "WarpFrame"
    every = "FrameStack FlickerFrame ClipRewardEnv ScaledFloatFrame WarpFrame FireResetEnv EpisodicLifeEnv"
    assert layers(scale=True, fire_reset=True, flicker=True) == every


WITHOUT_MEANINGS = {"get_action_meanings": lambda: ["UP", "DOWN"]}


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: atari.NoopResetEnv(Counting(**WITHOUT_MEANINGS)), ValueError, r"meanings \['UP', 'DOWN'\], expected"),
        (lambda: atari.FireResetEnv(Counting(**WITHOUT_MEANINGS)), ValueError, r"meanings \['UP', 'DOWN'\], expected"),
        (lambda: atari.FireResetEnv(Counting(action_space=spaces.Discrete(2))), ValueError, "2 .* at least 3"),
        (lambda: atari.MaxAndSkipEnv(Counting(), 0), ValueError, "skip is"),
        (lambda: atari.MaxAndSkipEnv(Counting(), 2.5), TypeError, "skip is"),
        (lambda: atari.WarpFrame(raw(), "cwh"), ValueError, "channel_order is 'cwh', expected"),
        (lambda: atari.WarpFrame(ABC()), ValueError, "expected uint8"),
        (lambda: atari.WarpFrame(Counting(observation_space=SMALL)), ValueError, "at least 84x84"),
        (lambda: atari.FrameStack(Counting(), 2), ValueError, "more than 2 axes"),
        (lambda: atari.FrameStack(Counting(), 0, "chw"), ValueError, "k is 0"),
        (lambda: ContinuingTimeLimit(Counting(), 0), ValueError, "max_episode_steps is 0"),
        (lambda: atari.make_atari("CartPole-v1"), ValueError, "env_id is 'CartPole-v1', expected an Atari game"),
    ],
)
def test_what_does_not_fit_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_absent_emulator_is_named_with_its_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ale_py", None)
    with pytest.raises(ImportError, match=r"ale-py: install the extra \"atari\""):
        atari.make_atari("PongNoFrameskip-v4")


# Time limit


def test_time_limit_tells_and_does_not_end():
    for env in (ContinuingTimeLimit(Counting(), 3), ContinuingTimeLimit(InPfrlForm(Counting()), 3)):
        for _ in range(2):
            env.reset()
            steps = [env.step(0) for _ in range(4)]
            assert [step[-1].get("needs_reset", False) for step in steps] == [False, False, True, True]
            assert not any(any(step[2:-1]) for step in steps)
