"""Videos are what the agent does, are whole or absent, and change nothing of training."""

import sys

import gymnasium
import numpy as np
import pytest
from experiment_fakes import Counting, Recorder
from PIL import Image
from resume_parts import small_dqn
from run_parts import names_in, table

from pfrl_like.errors import MissingDependencyError
from pfrl_like.experiments import RecordVideoEvery, record_video, train_agent


class Filmed(Counting):
    """Its pictures are as bright as the step, from a random start on."""

    render_mode = "rgb_array"
    metadata = {"render_fps": 10, "render_modes": ["rgb_array"]}

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        self.light = int(self.np_random.integers(100))
        return result

    def render(self):
        return np.full((5, 7, 3), self.light + self.step_in_episode, np.uint8)


def lights(path):
    video = Image.open(path)
    return [video.seek(i) or video.convert("RGB").getpixel((0, 0))[0] for i in range(video.n_frames)]


def test_a_video_shows_the_episodes_that_are_returned(tmp_path):
    path = tmp_path / "new" / "x.gif"
    made, returns = record_video(Recorder(), Filmed(3), path, n_episodes=2, max_steps=5, fps=5.0, seed=1)
    assert (made, returns) == (str(path), [3.0, 2.0])
    first, *rest = lights(path)
    assert rest[:3] == [first + 1, first + 2, first + 3] and len(rest) == 6
    assert Image.open(path).info["duration"] == 200 and names_in(path.parent) == {"x.gif"}
    record_video(Recorder(), Filmed(3), path, seed=1)
    assert lights(path)[0] == first and Image.open(path).info["duration"] == 100


def test_a_video_of_an_id_can_be_an_mp4(tmp_path):
    imageio = pytest.importorskip("imageio.v2")
    pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    path, [length] = record_video(Recorder(), "CartPole-v1", tmp_path / "x.mp4", seed=0)
    assert imageio.get_reader(path).count_frames() == length + 1


def test_a_video_of_a_specification_is_as_of_its_id(tmp_path):
    spec = gymnasium.envs.registration.EnvSpec("Filmed-v0", entry_point=lambda render_mode: Filmed(3))
    assert record_video(Recorder(), spec, tmp_path / "x.gif", seed=0)[1] == [3.0]
    RecordVideoEvery(20, spec, tmp_path)


def test_videos_that_cannot_be_made_are_rejected_and_leave_nothing(tmp_path, monkeypatch):
    for env, name, message in (
        (gymnasium.make("CartPole-v1"), "x.gif", 'render_mode is None, .*make the environment with render_mode="rgb_'),
        (Filmed(), "x.avi", "path is .*x.avi', expected an end in .gif or .mp4"),
    ):
        with pytest.raises(ValueError, match=message):
            record_video(Recorder(), env, tmp_path / name)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(MissingDependencyError, match=r"imageio-ffmpeg.*\[video\]"):
        record_video(Recorder(), Filmed(), tmp_path / "x.mp4")
    with pytest.raises(ValueError, match="expected the id of a registered environment, such as CartPole-v1"):
        record_video(Recorder(), "CartPol-v1", tmp_path / "x.gif")
    with pytest.raises(TypeError, match=r"env is 5 \(int\), expected an environment id"):
        RecordVideoEvery(20, 5, tmp_path)
    with pytest.raises(ValueError, match="outside|from 0 to 1"):
        record_video(Recorder(action=7), Filmed(), tmp_path / "x.gif")
    assert not names_in(tmp_path)


def test_videos_of_training_change_nothing_and_begin_alike(tmp_path):
    options = {"n_episodes": 1, "max_steps": 4, "fps": 9, "seed": 3, "extension": ".gif"}
    video = RecordVideoEvery(20, Filmed(6), tmp_path / "videos", **options)
    for name, hooks in (("with", [video]), ("without", [])):
        env = Filmed(7)
        env.reset(seed=0)
        env.action_space.seed(0)
        train_agent(small_dqn(env), env, 40, tmp_path / name, step_hooks=hooks)
    assert names_in(tmp_path / "videos") == {"20.gif", "40.gif"}
    assert table(tmp_path / "with" / "metrics.csv") == table(tmp_path / "without" / "metrics.csv")
    assert lights(tmp_path / "videos/20.gif")[0] == lights(tmp_path / "videos/40.gif")[0]
    with pytest.raises(ValueError, match="render_mode is None"):
        RecordVideoEvery(20, gymnasium.make("CartPole-v1"), tmp_path)
