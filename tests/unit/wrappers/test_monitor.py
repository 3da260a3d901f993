"""Monitor writes down every episode, and films some."""

import csv
import importlib
import json
import os
from unittest import mock

import gymnasium
import gymnasium.spaces as spaces
import numpy as np
import pytest
from PIL import Image

from pfrl_like.envs.abc import ABC
from pfrl_like.wrappers import Monitor, monitor


class Filmed(gymnasium.Env):
    """Episodes of two steps that earn 1 each; a picture shows the step."""

    metadata = {"render_fps": 10}
    observation_space, action_space = spaces.Discrete(3), spaces.Discrete(2)

    def __init__(self, render_mode="rgb_array"):
        self.render_mode = render_mode
        self.n_closed = 0

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return 0, {}

    def step(self, action):
        self.t += 1
        return self.t, 1.0, False, self.t == 2, {}

    def render(self):
        return np.full((6, 8, 3), 100 * self.t, np.uint8)

    def close(self):
        self.n_closed += 1


def play(env, episodes):
    for _ in range(episodes):
        env.reset()
        env.step(0)
        env.step(0)


def monitored(directory, episodes, render_mode=None, **options):
    """A monitor of some episodes, which is closed."""
    env = Monitor(Filmed(render_mode), directory, **options)
    play(env, episodes)
    env.close()
    return env


def stats(directory):
    [path] = directory.glob("monitor.*.stats.json")
    return json.loads(path.read_text())


def test_returns_and_lengths_of_finished_episodes_are_at_hand(tmp_path):
    env = Monitor(ABC(size=2), tmp_path)
    for actions in ([0, 1], [1], [0]):
        env.reset()
        for action in actions:
            env.step(action)
    assert env.get_episode_rewards() == [1.0, 0.0]
    assert env.get_episode_lengths() == [2, 1]
    assert env.get_total_steps() == 4
    env.close()


def test_files_hold_every_episode_the_unfinished_ones_too(tmp_path):
    env = Monitor(ABC(size=3), tmp_path)
    env.reset()
    env.step(0)
    env.reset()  # as by a runner's episode limit
    env.reset()  # nothing has happened in between
    env.step(0)
    env.step(1)
    env.close()
    env.close()
    written = stats(tmp_path)
    assert (written["episode_lengths"], written["episode_rewards"]) == ([1, 2], [0.0, 0.0])
    assert written["episode_types"] == ["t", "t"]
    assert written["initial_reset_timestamp"] <= written["timestamps"][0] <= written["timestamps"][1]
    [path] = tmp_path.glob("*.csv")
    rows = list(csv.DictReader(path.open()))
    assert [(float(row["r"]), int(row["l"])) for row in rows] == [(0.0, 1), (0.0, 2)]
    assert 0 <= float(rows[0]["t"]) <= float(rows[1]["t"])


def test_lines_are_written_as_episodes_end(tmp_path):
    env = Monitor(Filmed(None), tmp_path)
    play(env, 2)
    [path] = tmp_path.glob("*.csv")
    assert len(path.read_text().splitlines()) == 3
    assert list(tmp_path.glob("*.json")) == []


def test_stats_are_written_without_a_call_of_close_as_of_scripts_that_end(tmp_path):
    env = Monitor(Filmed(None), tmp_path, mode="evaluation")
    play(env, 2)
    env.reset()
    env.step(0)
    del env
    written = stats(tmp_path)
    assert (written["episode_lengths"], written["episode_types"]) == ([2, 2], ["e", "e"])
    Monitor(Filmed(None), tmp_path / "new")  # has recorded nothing
    assert not [*(tmp_path / "new").iterdir()]


def test_restored_episodes_are_in_the_stats_with_later_ones(tmp_path):
    first = monitored(tmp_path / "first", 1)
    env = Monitor(Filmed(None), tmp_path / "second")
    env.restore_state(first.saved_state())
    play(env, 1)
    del env
    written = stats(tmp_path / "second")
    assert (written["episode_lengths"], written["episode_types"]) == ([2, 2], ["t", "t"])
    assert written["initial_reset_timestamp"] == stats(tmp_path / "first")["initial_reset_timestamp"]


def test_stats_are_written_at_every_reset_if_asked(tmp_path):
    env = Monitor(Filmed(None), tmp_path, write_upon_reset=True)
    play(env, 2)
    assert stats(tmp_path)["episode_lengths"] == [2]


def test_closing_closes_the_env_once(tmp_path):
    env = monitored(tmp_path, 0)
    env.close()
    assert env.unwrapped.n_closed == 1


def test_mode_is_noted_with_the_episodes(tmp_path):
    monitored(tmp_path, 1, mode="evaluation")
    assert stats(tmp_path)["episode_types"] == ["e"]
    with pytest.raises(ValueError, match="mode is 'test'"):
        Monitor(Filmed(), tmp_path, mode="test")


def test_uid_names_the_files(tmp_path):
    monitored(tmp_path / "new" / "directory", 1, uid="mine")
    found = sorted(path.name for path in (tmp_path / "new" / "directory").iterdir())
    assert found == ["monitor.mine.csv", "monitor.mine.stats.json"]


def test_two_monitors_of_one_run_share_a_directory(tmp_path):
    for env in [Monitor(Filmed(None), tmp_path) for _ in range(2)]:
        play(env, 1)
        env.close()
    Monitor(Filmed(None), tmp_path).close()
    assert len(list(tmp_path.glob("*.stats.json"))) == 3
    assert all(f".{os.getpid()}." in path.name for path in tmp_path.iterdir())


def test_files_of_an_earlier_run_are_refused_removed_or_kept(tmp_path):
    old, other = tmp_path / "monitor.0.1.stats.json", tmp_path / "monitor.txt"
    old.touch()
    other.touch()
    with pytest.raises(ValueError, match="files of an earlier run"):
        Monitor(Filmed(), tmp_path)
    Monitor(Filmed(), tmp_path, resume=True)
    assert old.exists()
    Monitor(Filmed(), tmp_path, force=True)
    assert not old.exists()
    assert other.exists()


@pytest.fixture
def without_imageio(monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(monitor.importlib, "import_module", refuse)


def test_film_is_a_gif_without_the_video_extra(tmp_path, without_imageio):
    monitored(tmp_path, 3, "rgb_array", video_callable=lambda episode: episode == 1, uid="x")
    [path] = tmp_path.glob("*.gif")
    assert path.name == "monitor.x.video000001.gif"
    film = Image.open(path)
    assert (film.n_frames, film.size, film.info["duration"]) == (3, (8, 6), 100)
    film.seek(2)
    assert film.convert("RGB").getpixel((0, 0)) == (200, 200, 200)


def test_film_of_an_episode_cut_off_is_written(tmp_path, without_imageio):
    env = Monitor(Filmed(), tmp_path, video_callable=lambda episode: True)
    env.reset()
    env.step(0)
    env.close()
    [path] = tmp_path.glob("*.gif")
    assert Image.open(path).n_frames == 2


def test_film_is_mp4_with_the_video_extra(tmp_path, monkeypatch):
    imageio = mock.Mock()
    monkeypatch.setattr(importlib, "import_module", lambda name: imageio)
    monitored(tmp_path, 1, "rgb_array", video_callable=lambda episode: True, uid="x")
    path = str(tmp_path / "monitor.x.video000000.mp4")
    imageio.get_writer.assert_called_once_with(path, fps=10.0, macro_block_size=2)
    writer = imageio.get_writer.return_value
    assert [int(call.args[0][0, 0, 0]) for call in writer.append_data.call_args_list] == [0, 100, 200]
    writer.close.assert_called_once_with()


def test_cubes_are_filmed_by_default_and_nothing_if_not_wanted_or_not_possible(tmp_path, without_imageio):
    for name, env, schedule in [("a", Filmed(), None), ("b", Filmed(), False), ("c", Filmed(None), None)]:
        play(Monitor(env, tmp_path / name, video_callable=schedule, uid="x"), 10)
    names = sorted(path.name for path in tmp_path.glob("*/*.gif"))
    assert names == [f"monitor.x.video00000{episode}.gif" for episode in (0, 1, 8)]


def test_every_thousandth_episode_is_filmed_later():
    from pfrl_like.wrappers.monitor import _capped_cubic

    cubes = [n**3 for n in range(10)]
    assert [episode for episode in range(4000) if _capped_cubic(episode)] == [*cubes, 1000, 2000, 3000]


def test_film_of_an_env_of_the_old_gym_asks_for_the_mode(tmp_path, without_imageio):
    class Old(ABC):
        metadata = {"render.modes": ["rgb_array"], "video.frames_per_second": 25}

        def render(self, mode):
            assert mode == "rgb_array"
            return np.zeros((6, 8, 3), np.uint8)

    env = Monitor(Old(), tmp_path)
    env.reset()
    env.step(1)
    [path] = tmp_path.glob("*.gif")
    assert Image.open(path).info["duration"] == 40


def test_a_film_without_a_frame_leaves_no_file(tmp_path, without_imageio):
    film = monitor.VideoRecorder(Filmed(), str(tmp_path / "x"))
    film.close()
    film.close()
    assert not [*tmp_path.iterdir()]


def test_films_that_cannot_be_made_are_refused(tmp_path):
    with pytest.raises(ValueError, match='render_mode="rgb_array"'):
        Monitor(Filmed(None), tmp_path, video_callable=lambda episode: True)
    with pytest.raises(ValueError, match="video_callable is True"):
        Monitor(Filmed(), tmp_path, video_callable=True)
