"""Runs that go on in the directory of an earlier one, or replace it."""

import contextlib
import json
import logging
import re
from pathlib import Path

import pytest
from experiment_fakes import Counting, Recorder
from lab.failing_calls import Fault
from run_parts import change_record, names_in, record, steps_of, table
from tensorboard_files import scalars

from pfrl_like.errors import CheckpointError
from pfrl_like.experiments import Evaluator, train_agent, train_agent_with_evaluation
from pfrl_like.experiments.evaluator import BASIC_COLUMNS
from pfrl_like.experiments.report import round_numbers, write_report
from pfrl_like.loggers import CSVLogger
from pfrl_like.runs.run_directory import earlier_parts, move_earlier_files, progress_of
from pfrl_like.runs.run_files import METRICS, SCORES, column_of, record_of


class Saving(Recorder):
    """Leaves directories, with the step in them at which they were saved."""

    def observe(self, *args, **told):
        super().observe(*args, **told)
        self.t += self.training

    def save(self, dirname):
        super().save(dirname)
        Path(dirname).mkdir(exist_ok=True)
        Path(dirname, "t").write_text(str(self.t))


def run(directory, last, agent=None, **options):
    arguments = {"eval_n_steps": None, "eval_n_episodes": 1, "eval_interval": 10, "checkpoint_freq": 10, **options}
    train_agent_with_evaluation(agent or Saving(), Counting(4), last, outdir=directory, **arguments)


def folder(directory, pattern):
    (found,) = [path for path in directory.iterdir() if re.fullmatch(pattern, path.name)]
    return found


AGE = r"\d{8}T\d{6}"


class TestFromACheckpoint:
    """A run of 40 steps in episodes of 4, evaluated and saved every 10, that goes on from step 20 up to step 48."""

    @pytest.fixture
    def directory(self, tmp_path):
        run(tmp_path, 40)
        change_record(tmp_path, outcome="running")  # as if it had been killed
        for name, delimiter in (("metrics.csv", ","), ("scores.txt", "\t")):  # as if it had taken hours
            header, *rows = (line.split(delimiter) for line in (tmp_path / name).read_text().splitlines())
            for number, row in enumerate(rows, 1):
                row[header.index("elapsed")] = str(1000.0 * number)
            (tmp_path / name).write_text("".join(delimiter.join(row) + "\n" for row in (header, *rows)))
        run(tmp_path, 48, step_offset=20)
        return tmp_path

    @pytest.mark.slow
    @pytest.mark.parametrize("name, delimiter", [("metrics.csv", ","), ("scores.txt", "\t")])
    def test_time_goes_on(self, directory, name, delimiter):
        header, *lines = (line.split(delimiter) for line in (directory / name).read_text().splitlines())
        times = [float(line[header.index("elapsed")]) for line in lines]
        assert times == sorted(times) and 5000 < times[-1] < 5100  # 5 episodes had ended by step 20

    def test_what_lay_beyond_is_kept_aside(self, directory):
        aside = folder(directory, f"beyond-20-{AGE}")
        assert names_in(aside) == {"metrics.csv", "scores.txt", "30_checkpoint", "40_finish"}
        assert steps_of(aside / "metrics.csv") == [24, 28, 32, 36, 40]
        assert steps_of(directory / "metrics.csv") == list(range(4, 49, 4))
        assert [int(row["episode"]) for row in table(directory / "metrics.csv")] == list(range(12))
        assert steps_of(aside / "scores.txt") == [32, 40]
        agents = {path.name for path in directory.iterdir() if path.name[0].isdigit()}
        assert agents == {"10_checkpoint", "20_checkpoint", "30_checkpoint", "40_checkpoint", "48_finish"}
        assert (directory / "best" / "t").read_text() == "12"

    def test_the_record_tells_of_all_parts(self, directory):
        run(directory, 52, step_offset=48)
        told = record(directory)
        parts = [*told.pop("earlier_parts"), told]
        assert [(part["step_offset"], part["t"], part["episodes"], part["outcome"]) for part in parts] == [
            (0, 40, 10, "interrupted"), (20, 48, 12, "finished"), (48, 52, 13, "finished")
        ]  # fmt: skip
        assert not any("earlier_parts" in part for part in parts)
        assert "from step 20 to 48, started" in (directory / "report.html").read_text()


@pytest.mark.parametrize("step_offset", [0, 50])
def test_setting_aside_may_be_broken_off_anywhere(step_offset, tmp_path, caplog):
    """Whatever the last thing was that it did, the next start comes to what it would have come to at once."""

    def after_start_and_failure(calls):
        directory = tmp_path / str(calls)
        for name in ("best", "buffer", "40_checkpoint", "60_checkpoint", "80_finish"):
            (directory / name).mkdir(parents=True)
        (directory / "scores.txt").write_text("steps\tmean\n20\t1.0\n80\t5.0\n")
        (directory / "metrics.csv").write_text("step,return\n20,1.0\n80,5.0\n")
        (directory / "run.json").write_text('{"start": "2026-01-02T03:04:05"}')
        fault = Fault("rename", "replace", n=calls + 1, lasts=True)
        with fault.installed(), contextlib.suppress(CheckpointError):
            move_earlier_files(str(directory), step_offset, logging.getLogger())
        move_earlier_files(str(directory), step_offset, logging.getLogger())
        stays = {path.name: path.read_text() if path.is_file() else None for path in directory.iterdir()}
        gone = {path.name for kept in directory.glob("[be]*-*") for path in kept.iterdir()}
        return {name: text for name, text in stays.items() if "-" not in name}, gone, fault.happened

    stays, gone, _ = at_once = after_start_and_failure(100)
    assert "best" in gone and "best" not in stays and "buffer" in stays  # which is the user's
    assert ("everything that belongs to steps after 50 is now in" in caplog.text) == (step_offset == 50)
    calls = 0
    while (found := after_start_and_failure(calls)) != at_once:
        assert found == (stays, gone, True)
        calls += 1
    assert calls >= 6


def test_a_torn_header_is_written_anew(tmp_path):
    run(tmp_path, 40)
    header = (tmp_path / "scores.txt").read_text().splitlines()[0]
    (tmp_path / "scores.txt").write_text(header[:9])
    run(tmp_path, 52, step_offset=40)
    assert (tmp_path / "scores.txt").read_text().splitlines()[0] == header
    assert steps_of(tmp_path / "scores.txt") == [52]


@pytest.mark.slow
def test_an_evaluation_that_waited_for_the_end_of_an_episode_is_made_up_for(tmp_path):
    run(tmp_path, 42, eval_interval=10)  # at 12, 20, 32, 40
    run(tmp_path, 40, eval_interval=10, step_offset=30)  # the checkpoint came before the evaluation at 32
    assert steps_of(tmp_path / "scores.txt") == [12, 20, 34, 40]


def test_scores_beyond_the_offset_leave_a_run_that_goes_on_without_evaluation(tmp_path):
    run(tmp_path, 40)
    train_agent(Recorder(), Counting(4), 24, tmp_path, step_offset=20)
    assert steps_of(tmp_path / "scores.txt") == [12, 20]


@pytest.mark.slow
def test_of_many_parts_the_first_and_the_newest_are_named_and_how_many_are_not(tmp_path):
    told = {"files": "x" * 10_000, "step_offset": 0}
    for start in range(1, 252):
        first, *parts = every = [*earlier_parts(str(tmp_path)), told | {"start": start}]
        (tmp_path / "run.json").write_text(json.dumps(every.pop() | {"earlier_parts": every}))
    since, left_out = parts[0]["start"], parts[0]["parts_left_out_before"]
    assert [first["start"], *(part["start"] for part in parts)] == [1, *range(since, 252)]
    assert left_out == since - 2 and 40 < len(parts) < 60
    assert [part for part in parts[1:] if "parts_left_out_before" in part] == []
    write_report(str(tmp_path))
    shown = f"; {left_out} earlier parts omitted; from step 0"
    assert shown in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("t, told", [(0, False), (5, False), (50, True)])
def test_an_agent_that_has_come_to_another_step_is_set_back_with_a_warning(agent, tmp_path, caplog, t, told):
    agent.t = t
    train_agent(agent, Counting(), 6, tmp_path, step_offset=5)
    assert agent.t == 5
    assert ("agent.t is 50 and step_offset is 5" in caplog.text) == told


@pytest.mark.slow
def test_tensorboard_hides_what_lies_beyond_the_step_that_a_run_goes_on_from(tmp_path):
    pytest.importorskip("tensorboard")
    run(tmp_path, 40, use_tensorboard=True)
    run(tmp_path, 24, use_tensorboard=True, step_offset=20)
    assert [step for step, _ in scalars(tmp_path)["train/return"]] == [4, 8, 12, 16, 20, 24]


class TestASecondRunInTheSameDirectory:
    @pytest.mark.slow
    def test_it_shows_nothing_of_the_first_in_tensorboard(self, tmp_path):
        pytest.importorskip("tensorboard")
        run(tmp_path, 40, use_tensorboard=True)
        run(tmp_path, 20, use_tensorboard=True)
        assert [step for step, _ in scalars(tmp_path)["train/return"]] == [4, 8, 12, 16, 20]
        assert [step for step, _ in scalars(folder(tmp_path, f"earlier-{AGE}"))["eval/mean"]] == [12, 20, 32, 40]
        run(tmp_path, 8)
        assert not [*tmp_path.glob("events*")]

    def test_an_open_file_of_the_user_for_tensorboard_stays(self, tmp_path):
        logger = pytest.importorskip("torch.utils.tensorboard").SummaryWriter(tmp_path)
        run(tmp_path, 8, use_tensorboard=True)
        run(tmp_path, 8, use_tensorboard=True)
        logger.add_scalar("of the user", 1.0, 1)
        logger.close()
        assert {"of the user", "train/return"} <= scalars(tmp_path).keys()

    def test_files_of_another_process_for_tensorboard_are_kept_aside(self, tmp_path):
        (tmp_path / "events.out.tfevents.1700000000.host.1.0").touch()
        run(tmp_path, 8)
        assert not [*tmp_path.glob("events*")] and len([*tmp_path.glob("earlier-*/events*")]) == 1

    def test_it_tells_so_once(self, tmp_path, caplog):
        run(tmp_path, 20)
        assert "earlier" not in caplog.text
        run(tmp_path, 20)
        told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert len(told) == 1
        assert re.fullmatch(
            f"the files of an earlier run are now in {tmp_path}/earlier-{AGE}; to continue that run, pass "
            "resume=True or step_offset", told[0],
        )  # fmt: skip

    def test_without_evaluation_it_keeps_the_scores_of_the_first_aside_too(self, tmp_path):
        run(tmp_path, 20)
        train_agent(Recorder(), Counting(4), 8, tmp_path)
        assert not (tmp_path / "scores.txt").exists() and not (tmp_path / "best").exists()
        assert "Evaluations" not in (tmp_path / "report.html").read_text()

    def test_a_run_in_the_directory_of_pfrl_keeps_that_aside(self, tmp_path, caplog):
        (tmp_path / "scores.txt").write_text("steps\tmean\n5\t7.0\n")
        Evaluator(Recorder(), Counting(8), None, 1, 5, tmp_path)
        assert "the files of an earlier run are now in" in caplog.text
        assert (folder(tmp_path, f"earlier-{AGE}") / "scores.txt").exists()


@pytest.mark.parametrize("text", ["[1]", '{"earlier_parts": 3}', '{"earlier_parts": [3]}', "[" * 10_000, "", "\x00"])
def test_a_damaged_record_is_none(text, tmp_path):
    (tmp_path / "run.json").write_text(text)
    assert record_of(str(tmp_path)) == {}
    write_report(str(tmp_path))


def test_a_report_is_drawn_without_the_lines_that_are_damaged(tmp_path):
    (tmp_path / "scores.txt").write_text("steps\tmean\n10\tten\n20\t7.25\n")
    write_report(str(tmp_path))
    assert "<td>20</td><td>7.25</td>" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("name, delimiter", [("metrics.csv", ","), ("scores.txt", "\t")])
def test_a_byte_that_has_changed_anywhere_in_a_table_stops_no_run(name, delimiter, tmp_path, caplog):
    names = ["step", "elapsed", "episode", "return"] if delimiter == "," else [*BASIC_COLUMNS]
    lines = [names, *([str(t), "0.5", *["1.25"] * (len(names) - 2)] for t in range(10, 40, 10))]
    content = "".join(delimiter.join(line) + "\r\n" for line in lines).encode()
    told = 0
    for position in range(len(content)):
        for bit in (0, 6):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            outdir = tmp_path / f"{position}-{bit}"
            outdir.mkdir()
            (outdir / name).write_bytes(damaged)
            caplog.clear()
            move_earlier_files(str(outdir), 100, logging.getLogger())
            progress_of(str(outdir), 100)
            for each in (METRICS, SCORES):
                column_of(str(outdir), each, "return")
            CSVLogger(outdir / name, append=True).close()
            if "damaged lines" in caplog.text:
                told += 1
                (kept,) = outdir.glob(f"beyond-*/{name}")
                assert kept.read_bytes() == damaged
            else:
                assert damaged.startswith((outdir / name).read_bytes())  # a torn last line goes, as ever
    assert told > len(content) / 2


@pytest.mark.parametrize("header", [b"s4ep,elapsed,episode,return\n", b"step,elapsed,epi\xf3ode,return\n"])
def test_names_of_a_damaged_header_come_back(header, tmp_path, caplog):
    (tmp_path / "metrics.csv").write_bytes(header + b"4,0.5,0,1.0\n8,0.5,1,2.0\n")
    assert progress_of(str(tmp_path), 8)[0] == 2
    move_earlier_files(str(tmp_path), 8, logging.getLogger())
    assert (tmp_path / "metrics.csv").read_text().splitlines()[0] == "step,elapsed,episode,return"
    assert "metrics.csv has damaged lines (1)" in caplog.text


def test_lines_that_can_be_read_stay_in_a_damaged_table(tmp_path, caplog):
    run(tmp_path, 40)
    content = (tmp_path / "metrics.csv").read_bytes()
    (tmp_path / "metrics.csv").write_bytes(content.replace(b"\n8,", b'\n8"'))
    caplog.clear()
    run(tmp_path, 48, step_offset=40)
    assert steps_of(tmp_path / "metrics.csv") == [4, *range(12, 49, 4)]
    kept = folder(tmp_path, f"beyond-40-{AGE}") / "metrics.csv"
    assert kept.read_bytes() == content.replace(b"\n8,", b'\n8"')
    told = f"{tmp_path}/metrics.csv has damaged lines (1), which are removed or repaired; the original file is {kept}"
    assert [record.getMessage() for record in caplog.records].count(told) == 1


def test_a_table_that_is_one_endless_line_is_kept_aside_unread(tmp_path):
    with (tmp_path / "metrics.csv").open("wb") as file:
        file.write(b"step,elapsed,return\n4,0.5,1.0\n")
        file.truncate(1 << 40)
    move_earlier_files(str(tmp_path), 40, logging.getLogger())
    assert steps_of(tmp_path / "metrics.csv") == [4]
    assert (folder(tmp_path, f"beyond-40-{AGE}") / "metrics.csv").stat().st_size == 1 << 40


# The picture of a run


@pytest.mark.parametrize(
    "low, high, expected",
    [
        (8.0, 11.0, [8, 8.5, 9, 9.5, 10, 10.5, 11]),
        (0, 10000, [0, 2500, 5000, 7500, 10000]),
        (-21, 20.5, [-20, -10, 0, 10, 20]),
        (0, 0.004, [0, 0.001, 0.002, 0.003, 0.004]),
    ],
)
def test_axes_are_marked_at_round_numbers(low, high, expected):
    assert round_numbers(low, high) == pytest.approx(expected)


def test_the_learning_curve_is_marked_at_round_numbers(tmp_path):
    (env := Counting(30)).reward = 1 / 3  # the first episode brings 6 / 3 + 1, the others 7
    hook = lambda env, agent, t: t == 6 and setattr(env, "reward", 1.0)  # noqa: E731
    train_agent(Recorder(), env, 504, tmp_path, max_episode_len=7, step_hooks=[hook])
    marks = re.findall(r">(-?[\d,.]+)</text>", (tmp_path / "learning_curve.svg").read_text())
    assert marks == ["3", "4", "5", "6", "7", "0", "100", "200", "300", "400", "500"]
