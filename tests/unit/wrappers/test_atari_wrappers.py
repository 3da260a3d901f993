"""Wrappers of Atari games, on the real emulator."""

import copy
import pickle

import gymnasium
import gymnasium.spaces as spaces
import numpy as np
import pytest

from pfrl_like.envs.abc import ABC
from pfrl_like.errors import EnvError
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.wrappers import ContinuingTimeLimit, frames
from pfrl_like.wrappers.atari_wrappers import (
    ClipRewardEnv,
    EpisodicLifeEnv,
    FireResetEnv,
    FlickerFrame,
    FrameStack,
    LazyFrames,
    MaxAndSkipEnv,
    NoopResetEnv,
    ScaledFloatFrame,
    WarpFrame,
    make_atari,
    wrap_deepmind,
)

pytest.importorskip("ale_py")
FIRE, RIGHT = 1, 2


def raw(game="Pong"):
    """A game in which an action lasts one frame."""
    gymnasium.register_envs(pytest.importorskip("ale_py"))
    return gymnasium.make(f"{game}NoFrameskip-v4")


class Counting(gymnasium.Env):
    """Observes the number of steps since the reset, in an image; the reward is -3 times it; done after `length`."""

    observation_space = spaces.Box(0, 255, (100, 90), np.uint8)
    action_space = spaces.Discrete(3)

    def __init__(self, length=100, info=None, truncates=False):
        self.length, self.info, self.truncates, self.resets = length, info or {}, truncates, []

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
        info = {"at": self.t, **(self.info if ended else {})}
        return (
            self._obs(),
            -3.0 * self.t,
            ended and not self.truncates and not self.info,
            ended and self.truncates,
            info,
        )

    def _obs(self):
        return np.full((100, 90), self.t, np.uint8)


class CountingInPfrlForm:
    """The same with four values."""

    def __init__(self, **kwargs):
        self.env = Counting(**kwargs)
        self.observation_space, self.action_space = self.env.observation_space, self.env.action_space

    def get_action_meanings(self):
        return self.env.get_action_meanings()

    def reset(self):
        return self.env.reset()[0]

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated or truncated, info


WRAPPERS = {
    "noop": NoopResetEnv,
    "fire": FireResetEnv,
    "skip": MaxAndSkipEnv,
    "clip": ClipRewardEnv,
    "warp": WarpFrame,
    "scale": ScaledFloatFrame,
    "flicker": FlickerFrame,
    "stack": lambda env: FrameStack(env, 2, "chw"),
    "limit": lambda env: ContinuingTimeLimit(env, 5),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_form_of_the_environment_inside_is_kept(name):
    env = WRAPPERS[name](Counting())
    assert isinstance(env, gymnasium.Wrapper)
    obs, info = env.reset(seed=1)
    assert env.observation_space.contains(np.asarray(obs)) and info["at"] == env.unwrapped.t
    assert len(env.step(0)) == 5
    four = WRAPPERS[name](CountingInPfrlForm())
    assert not isinstance(four, gymnasium.Env)
    assert np.asarray(four.reset()).shape == four.observation_space.shape
    assert len(four.step(0)) == 4
    assert type(pickle.loads(pickle.dumps(env))) is type(env) is type(copy.deepcopy(env))


# Openings


def test_noops_are_drawn_from_the_environments_stream_between_one_and_the_maximum():
    env = NoopResetEnv(Counting(), noop_max=3)
    counts = []
    for seed in range(30):
        obs, info = env.reset(seed=seed)
        counts.append(len(env.unwrapped.actions))
        assert counts[-1] == np.random.default_rng(seed).integers(1, 4)
        assert obs[0, 0] == info["at"] == counts[-1] and set(env.unwrapped.actions) == {0}
    assert set(counts) == {1, 2, 3}


def test_number_of_noops_can_be_given():
    env = NoopResetEnv(CountingInPfrlForm(), noop_max=3)
    env.override_num_noops = 7
    assert env.reset()[0, 0] == 7


@pytest.mark.parametrize("info", [{}, {"needs_reset": True}])
@pytest.mark.parametrize("truncates", [False, True])
def test_an_episode_that_ends_in_its_opening_is_begun_anew_without_the_seed(info, truncates):
    env = NoopResetEnv(Counting(length=3, info=info, truncates=truncates))
    env.override_num_noops = 4
    obs, reset_info = env.reset(seed=5, options={"a": 1})
    assert obs[0, 0] == reset_info["at"] == 1  # three steps, a reset, one step
    assert env.unwrapped.resets == [(5, {"a": 1}), (None, {"a": 1})]


def test_seed_method_seeds_the_next_reset_as_in_pfrl():
    env = wrap_deepmind(make_atari("PongNoFrameskip-v4"))
    env.seed(3)
    first = np.asarray(env.reset()[0])
    np.testing.assert_array_equal(first, np.asarray(env.reset(seed=3)[0]))
    env = NoopResetEnv(Counting())
    env.seed(3)
    env.reset()
    env.reset()
    assert [seed for seed, _ in env.unwrapped.resets] == [3, None]


def test_fire_is_pressed_at_the_beginning():
    env = FireResetEnv(Counting())
    obs, _ = env.reset()
    assert env.unwrapped.actions == [FIRE, RIGHT] and obs[0, 0] == 2
    assert FireResetEnv(Counting(length=2)).reset()[0][0, 0] == 0  # over after both: begun anew


@pytest.mark.parametrize("wrapper", [NoopResetEnv, FireResetEnv])
def test_games_without_the_opening_actions_are_refused(wrapper):
    env = Counting()
    env.get_action_meanings = lambda: ["UP", "DOWN"]
    with pytest.raises(ValueError, match=r"meanings \['UP', 'DOWN'\], expected"):
        wrapper(env)


def test_fire_needs_three_actions():
    env = Counting()
    env.action_space = spaces.Discrete(2)
    with pytest.raises(ValueError, match="2 actions, expected at least 3"):
        FireResetEnv(env)


# Lives


def lose_a_life(env):
    """Fire and wait until the ball is lost; returns the last step and whether it was the only one that ended."""
    for t in range(2_000):
        step = env.step(FIRE if t % 50 == 0 else 0)
        if step[2] or step[3]:
            return step
    raise AssertionError("no life lost")


def test_each_life_is_an_episode_and_the_game_goes_on():
    env = EpisodicLifeEnv(raw("Breakout"))
    _, info = env.reset(seed=0)
    assert (env.lives, info["lives"]) == (5, 5)
    frames = 0
    for left in (4, 3, 2, 1):
        obs, _, terminated, truncated, info = lose_a_life(env)
        assert terminated is True and truncated is False and not env.needs_real_reset
        assert (env.lives, info["lives"]) == (left, left)
        assert info["episode_frame_number"] > frames
        frames = info["episode_frame_number"]
        assert env.reset()[1]["episode_frame_number"] == frames + 1  # one step that does nothing
    *_, info = lose_a_life(env)
    assert info["lives"] == 0 and env.needs_real_reset
    assert env.reset()[1]["episode_frame_number"] == 0 and env.lives == 5


def test_a_seed_starts_a_new_game():
    env = EpisodicLifeEnv(raw("Breakout"))
    env.reset(seed=0)
    lose_a_life(env)
    assert env.reset(seed=0, options=None)[1]["episode_frame_number"] == 0


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
    env = EpisodicLifeEnv(Lives(length=1, **kwargs))
    env.reset()
    *_, terminated, truncated, info = env.step(0)
    assert terminated is (not kwargs) and truncated is kwargs.get("truncates", False)
    assert env.needs_real_reset
    assert env.reset(seed=None, options=None)[0][0, 0] == 0


def test_a_game_that_ends_in_the_step_after_a_lost_life_is_begun_anew():
    env = EpisodicLifeEnv(Lives(length=3))
    env.reset()
    env.step(0)
    assert env.step(0)[2] is True and not env.needs_real_reset
    assert env.reset()[0][0, 0] == 0 and len(env.unwrapped.resets) == 2
    assert env.reset()[0][0, 0] == 0 and len(env.unwrapped.resets) == 3


# Skipped frames


def test_skipping_sums_rewards_and_takes_the_maximum_of_the_last_two_frames():
    env = MaxAndSkipEnv(Counting(), skip=3)
    env.reset()
    obs, reward, *_, info = env.step(RIGHT)
    assert env.unwrapped.actions == [RIGHT] * 3
    assert obs[0, 0] == 3 and reward == -3.0 * (1 + 2 + 3) and info["at"] == 3


def test_skipping_shows_what_flickers():
    env, same = MaxAndSkipEnv(raw(), skip=4), raw()
    env.reset(seed=0)
    same.reset(seed=0)
    for action in [FIRE, RIGHT, 3, 0] * 10:
        frames = [same.step(action)[0] for _ in range(4)]
        np.testing.assert_array_equal(env.step(action)[0], np.maximum(frames[2], frames[3]))


@pytest.mark.parametrize("kwargs", [{"truncates": True}, {"info": {"needs_reset": True}}, {}])
def test_skipping_stops_at_the_end_and_shows_the_true_last_frame(kwargs):
    env = MaxAndSkipEnv(Counting(length=5, **kwargs), skip=4)
    env.reset()
    assert env.step(0)[0][0, 0] == 4
    obs, reward, terminated, truncated, info = env.step(0)
    assert obs[0, 0] == 5 and reward == -15.0
    assert (terminated, truncated, "needs_reset" in info) == (not kwargs, "truncates" in kwargs, "info" in kwargs)


@pytest.mark.parametrize(("env", "skip", "error"), [(Counting(), 0, ValueError), (Counting(), 2.5, TypeError)])
def test_impossible_numbers_of_frames_are_refused(env, skip, error):
    with pytest.raises(error, match="skip is"):
        MaxAndSkipEnv(env, skip)


# Rewards and images


def test_rewards_become_their_signs():
    env = ClipRewardEnv(Counting())
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


@pytest.mark.parametrize(("order", "shape"), [("hwc", (84, 84, 1)), ("chw", (1, 84, 84))])
def test_frames_have_the_order_asked_for(order, shape):
    env = WarpFrame(raw(), channel_order=order)
    obs, _ = env.reset(seed=0)
    assert obs.shape == env.observation_space.shape == shape and obs.dtype == np.uint8
    assert WarpFrame(raw()).observation_space.shape == (84, 84, 1)
    grey = WarpFrame(gymnasium.make("PongNoFrameskip-v4", obs_type="grayscale"), channel_order=order)
    assert np.abs(grey.reset(seed=0)[0].astype(int) - obs).max() <= 1  # the emulator's own grey


def test_what_is_no_screen_is_refused():
    with pytest.raises(ValueError, match="channel_order is 'cwh', expected"):
        WarpFrame(raw(), "cwh")
    with pytest.raises(ValueError, match="expected screens"):
        WarpFrame(ABC())
    small = Counting()
    small.observation_space = spaces.Box(0, 255, (83, 90), np.uint8)
    with pytest.raises(ValueError, match="at least 84x84"):
        WarpFrame(small)


def test_scaled_frames_are_divided_by_255():
    env = ScaledFloatFrame(Counting())
    env.reset()
    obs = env.step(0)[0]
    assert obs.dtype == np.float32 and obs[0, 0] == np.float32(1) / np.float32(255)
    assert env.observation_space == spaces.Box(0, 1, (100, 90), np.float32)
    stacked = ScaledFloatFrame(FrameStack(Counting(), 2, "chw")).reset()[0]
    assert stacked.shape == (200, 90)


def test_half_of_the_frames_flicker():
    env = FlickerFrame(Counting(length=250))
    env.reset(seed=0)
    seen = [int(env.step(0)[0][0, 0]) for _ in range(200)]
    draws = np.random.default_rng(0).random(201)[1:]
    assert seen == [t if draw >= 0.5 else 0 for t, draw in enumerate(draws, start=1)]


def test_environments_without_a_stream_flicker_by_the_global_one():
    env = FlickerFrame(ABC())
    np.random.seed(0)
    dark = [not env.reset().any() for _ in range(20)]
    np.random.seed(0)
    assert dark == [np.random.random() < 0.5 for _ in range(20)]


# Stacks


def test_first_frame_counts_k_times_and_the_oldest_goes():
    env = FrameStack(Counting(), 3, "chw")
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

    env = FrameStack(InPlace(), 3, "chw")
    first, _ = env.reset()
    second = env.step(0)[0]
    assert all(a is b for a, b in zip(first._frames[1:], second._frames[:2], strict=True))
    assert np.asarray(first)[::100, 0].tolist() == [0, 0, 0]


@pytest.mark.parametrize(("order", "shape", "axis"), [("hwc", (84, 84, 4), 2), ("chw", (4, 84, 84), 0)])
def test_frames_are_joined_along_the_channels(order, shape, axis):
    env = wrap_deepmind(make_atari("PongNoFrameskip-v4"), channel_order=order)
    env.reset(seed=0)
    for _ in range(20):
        obs = env.step(FIRE)[0]
    assert isinstance(obs, LazyFrames)
    assert obs.shape == np.asarray(obs).shape == env.observation_space.shape == shape
    assert (obs.ndim, obs.dtype, len(obs)) == (3, np.uint8, shape[0])
    for i, frame in enumerate(env.frames):
        np.testing.assert_array_equal(np.asarray(obs).take([i], axis), frame)
    np.testing.assert_array_equal(obs[2], np.asarray(obs)[2])
    assert np.asarray(obs, np.float32).dtype == np.float32


def test_impossible_stacks_are_refused():
    with pytest.raises(ValueError, match="more than 2 axes"):
        FrameStack(Counting(), 2)
    with pytest.raises(ValueError, match="k is 0"):
        FrameStack(Counting(), 0, "chw")


def test_the_number_of_frames_may_be_numpys():
    env = Counting()
    env.observation_space = spaces.Box(0, 255, (1, 2, 2), np.uint8)
    assert FrameStack(env, np.int64(3), "chw").frames.maxlen == 3


def test_a_transition_in_the_replay_buffer_takes_one_frame():
    env = wrap_deepmind(make_atari("PongNoFrameskip-v4"))
    buffer = ReplayBuffer(1_000)
    obs, _ = env.reset(seed=0)
    for t in range(400):
        next_obs, reward, terminated, _, _ = env.step(t % 6)
        buffer.append(obs, t % 6, reward, next_obs, is_state_terminal=terminated)
        obs = next_obs
    leaf = buffer._columns.obs.leaves[0]
    assert leaf.frames.size - 1 - len(leaf.frames.free) <= 401
    np.testing.assert_array_equal(buffer.memory[-1][0]["next_state"], np.asarray(obs))


# Whole games


@pytest.mark.parametrize("env_id", ["PongNoFrameskip-v4", "ALE/Pong-v5"])
def test_games_of_both_kinds_of_names_run_four_frames_a_step(env_id):
    env = make_atari(env_id)
    assert isinstance(env, gymnasium.Env) and env.observation_space.shape == (210, 160, 3)
    before = env.reset(seed=1)[1]["episode_frame_number"]
    assert 1 <= before <= 30
    assert env.step(0)[-1]["episode_frame_number"] == before + 4
    assert env.spec.kwargs["repeat_action_probability"] == (0.25 if "v5" in env_id else 0.0)


@pytest.mark.parametrize("env_id", ["PongNoFrameskip-v4", "ALE/Pong-v5"])
def test_a_game_is_truncated_after_its_frames(env_id):
    env = wrap_deepmind(make_atari(env_id, max_frames=50))
    for _ in range(2):
        env.reset()
        truncated = False
        while not truncated:
            _, _, terminated, truncated, info = env.step(0)
            assert not terminated
        assert info["episode_frame_number"] == 50
    for unlimited in (None, 0):
        assert make_atari(env_id, max_frames=unlimited).spec.kwargs["max_num_frames_per_episode"] is None


def test_same_seed_and_actions_give_the_same_game():
    def play():
        env = wrap_deepmind(make_atari("ALE/Breakout-v5"), flicker=True)
        obs = [np.asarray(env.reset(seed=7)[0])]
        obs += [np.asarray(env.step(t % 4)[0]) for t in range(30)]
        return np.stack(obs)

    np.testing.assert_array_equal(play(), play())


def test_deepminds_wrappers_are_chosen_one_by_one():
    def layers(**kwargs):
        env, names = wrap_deepmind(make_atari("BreakoutNoFrameskip-v4"), **kwargs), []
        while not isinstance(env, MaxAndSkipEnv):
            names.append(type(env).__name__)
            env = env.env
        return names

    assert layers() == ["FrameStack", "ClipRewardEnv", "WarpFrame", "EpisodicLifeEnv"]
    assert layers(episode_life=False, clip_rewards=False, frame_stack=False) == ["WarpFrame"]
    assert layers(scale=True, fire_reset=True, flicker=True) == [
        "FrameStack",
        "FlickerFrame",
        "ClipRewardEnv",
        "ScaledFloatFrame",
        "WarpFrame",
        "FireResetEnv",
        "EpisodicLifeEnv",
    ]


@pytest.mark.parametrize(("order", "shape"), [("chw", (4, 84, 84)), ("hwc", (84, 84, 4))])
def test_deepminds_wrappers_agree_on_the_order(order, shape):
    env = wrap_deepmind(make_atari("PongNoFrameskip-v4"), channel_order=order)
    assert env.observation_space.shape == env.reset(seed=0)[0].shape == shape


def test_rendering_is_asked_for_when_the_game_is_made():
    env = wrap_deepmind(make_atari("PongNoFrameskip-v4", render_mode="rgb_array"))
    env.reset(seed=0)
    assert env.render().shape == (210, 160, 3)


def test_what_is_no_atari_game_is_refused():
    with pytest.raises(ValueError, match="env_id is 'CartPole-v1', expected an Atari game"):
        make_atari("CartPole-v1")


def test_absent_emulator_is_named_with_its_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ale_py", None)
    with pytest.raises(ImportError, match=r"ale-py: install the extra \"atari\""):
        make_atari("PongNoFrameskip-v4")


# Time limit


def test_time_limit_tells_and_does_not_end():
    for env in (ContinuingTimeLimit(Counting(), 3), ContinuingTimeLimit(CountingInPfrlForm(), 3)):
        for _ in range(2):
            env.reset()
            steps = [env.step(0) for _ in range(4)]
            assert [step[-1].get("needs_reset", False) for step in steps] == [False, False, True, True]
            assert not any(any(step[2:-1]) for step in steps)
    with pytest.raises(ValueError, match="max_episode_steps is 0"):
        ContinuingTimeLimit(Counting(), 0)


def test_step_of_another_form_is_named():
    class Three(ABC):
        def step(self, action):
            return 1, 2, 3

    with pytest.raises(EnvError, match="step returned 3 values"):
        ClipRewardEnv(Three()).step(0)
