"""What training leaves on the disk and on the console."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from estimator_parts import make, vectors

from pfrl_like import algos
from pfrl_like.algos.fitting.epochs import RunLog
from pfrl_like.algos.fitting.fitting import Training
from pfrl_like.dataset import MDPDataset
from pfrl_like.loggers import FileAdapterFactory, LoggingStrategy, NoAdapter, NoopAdapterFactory
from pfrl_like.metrics import td_error_scorer

SILENT: dict[str, Any] = {"verbose": False, "show_progress": False}
RUN: dict[str, Any] = {**SILENT, "experiment_name": "run", "with_timestamp": False}


def test_a_folder_holds_metrics_hyperparameters_and_models() -> None:
    made = make("DQN", scaler="min_max")
    made.fit(vectors(True), n_epochs=4, save_interval=2, scorers={"half": lambda algo, episodes: 0.5})
    (folder,) = Path("d3rlpy_logs").iterdir()
    assert folder.name[:4] == "DQN_" and len(folder.name) == 24 and folder.name[4:].isdigit()
    assert sorted(path.name for path in folder.iterdir()) == [
        "metrics.csv", "model_14.pt", "model_28.pt", "params.json",
    ]  # fmt: skip
    rows = list(csv.DictReader((folder / "metrics.csv").open()))
    assert [(row["epoch"], row["step"], row["half"]) for row in rows] == [
        (str(i), str(7 * i + 7), "0.5") for i in range(4)
    ]
    params = json.loads((folder / "params.json").read_text())
    assert params["algorithm"] == "DQN" and params["learning_rate"] == 6.25e-5
    assert params["scaler"]["type"] == "min_max" and params["observation_shape"] == [4] and params["action_size"] == 3
    (events,) = (Path("runs") / folder.name).iterdir()
    assert "tfevents" in events.name


def test_names_and_places_can_be_chosen() -> None:
    for name, with_timestamp in (("mine", True), ("mine", True), ("mine", False), ("mine", False)):
        made = make("BC")
        made.fit(
            vectors(False), n_epochs=1, logdir="custom", experiment_name=name, with_timestamp=with_timestamp,
            tensorboard=False, **SILENT,
        )  # fmt: skip
    names = sorted(path.name for path in Path("custom").iterdir())
    assert len(names) == 3 and names[0] == "mine" and all(name.startswith("mine_2") for name in names[1:])
    assert not Path("runs").exists() and not Path("d3rlpy_logs").exists()


def test_nothing_is_written_without_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    make("DQN").fit(vectors(True), n_epochs=2, save_metrics=False, **SILENT)
    assert not list(Path().iterdir())
    assert capsys.readouterr() == ("", "")


def test_the_console_shows_hyperparameters_and_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    make("DQN").fit(vectors(True), n_epochs=2, save_metrics=False, scorers={"one": lambda algo, episodes: 1.0})
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "algorithm=DQN"
    assert {"batch_size=16", "q_func_type=mean", "target_update_interval=8000.0", "use_gpu=None"} < set(lines)
    assert lines.index("observation_shape=(4,)") == lines.index("action_size=3") - 1
    assert "epoch=0 step=7 one=1.000000" in lines and "epoch=1 step=14 one=1.000000" in lines
    assert sum(line.startswith("epoch=1 step=14 value_loss=") for line in lines) == 1
    assert "14/14 steps" in err


def test_an_interrupted_training_leaves_what_it_had() -> None:
    def stop(algo: algos.Estimator, epoch: int, step: int) -> None:
        if step == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make("DQN").fit(vectors(True), n_epochs=3, callback=stop, **SILENT)
    (folder,) = Path("d3rlpy_logs").iterdir()
    assert len(list(csv.DictReader((folder / "metrics.csv").open()))) == 1
    again = algos.DQN.from_json(folder / "params.json")
    again.load_model(folder / "model_7.pt")
    assert np.isfinite(again.predict_value(np.zeros((1, 4)), [0])).all()


def test_scorers_may_be_a_list() -> None:
    def depth(algo: algos.Estimator, episodes: object) -> float:
        return 3.0

    made = make("DQN").fit(vectors(True), n_epochs=1, scorers=[depth], save_metrics=False, verbose=False)
    assert made.eval_results_ == {"depth": [3.0]}
    alike = [lambda algo, episodes, i=i: float(i) for i in range(2)]
    made.fit(vectors(True), n_epochs=1, scorers=alike, save_metrics=False, verbose=False)
    assert made.eval_results_ == {"<lambda>": [0.0], "<lambda>1": [1.0]}
    with pytest.raises(TypeError, match="episodes is None, .* pass eval_episodes to fit"):
        made.fit(vectors(True), n_epochs=1, scorers=[td_error_scorer], save_metrics=False, verbose=False)
    with pytest.raises(TypeError, match="scorers is 3, expected a dict or a list of functions"):
        make("DQN").fit(vectors(True), scorers=3, save_metrics=False)
    with pytest.raises(TypeError, match=r"scorers\['bad'\] is 3"):
        make("DQN").fit(vectors(True), scorers={"bad": 3}, save_metrics=False)


def test_a_class_reads_its_own_file_beside_another_one_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    make("DQN").fit(vectors(True), n_epochs=1, **RUN)
    monkeypatch.setitem(algos.fitting.base.ESTIMATORS, "DQN", type("DQN", (algos.DQN,), {}))
    assert type(algos.DQN.from_json("d3rlpy_logs/run/params.json")) is algos.DQN


def test_losses_may_be_logged_every_so_many_updates() -> None:
    made = make("DQN")
    made.fit(
        vectors(True), n_epochs=2, logdir="logs", scorers={"one": lambda algo, episodes: 1.0},
        logging_strategy=LoggingStrategy.STEPS, logging_steps=5, **SILENT,
    )  # fmt: skip
    (path,) = Path("logs").glob("*/metrics.csv")
    rows = list(csv.DictReader(path.open()))
    assert [(row["epoch"], row["step"], row["one"]) for row in rows] == [
        ("0", "5", "nan"), ("0", "7", "1.0"), ("1", "10", "nan"), ("1", "14", "1.0"),
    ]  # fmt: skip
    assert [row["value_loss"] == "nan" for row in rows] == [False, True, False, True]


def test_adapters_take_the_place_of_folder_and_tensorboard() -> None:
    made = make("SAC")
    options = RUN
    made.fit(vectors(False), n_epochs=2, logger_adapter=FileAdapterFactory("adapted"), **options)
    folder = Path("adapted/run")
    assert sorted(path.name for path in folder.iterdir()) == [
        "actor_loss.csv", "critic_loss.csv", "model_0.d3", "model_1.d3", "params.json", "temperature.csv",
    ]  # fmt: skip
    assert [row["step"] for row in csv.DictReader((folder / "temperature.csv").open())] == ["7", "14"]
    assert [path.name for path in Path().iterdir()] == ["adapted"]
    again = algos.SAC.from_json(folder / "params.json")
    again.load_model(folder / "model_1.d3")
    assert np.array_equal(again.predict(np.zeros((1, 4))), made.predict(np.zeros((1, 4))))
    made.fit(vectors(False), n_epochs=1, logger_adapter=FileAdapterFactory("none"), save_metrics=False, **options)
    assert not Path("none").exists()


def test_minibatches_of_all_there_is_are_told(caplog: pytest.LogCaptureFixture) -> None:
    for batch_size, said in ((10**6, True), (16, False)):
        caplog.clear()
        make("BC", batch_size=batch_size).fit(vectors(False), n_epochs=2, save_metrics=False, verbose=False)
        told = [record for record in caplog.records if "batch_size is 1000000, but there are" in record.getMessage()]
        assert len(told) == said


def test_a_model_is_saved_before_scorers_may_fail(tmp_path: Path) -> None:
    def fails(algo: object, episodes: object) -> float:
        raise RuntimeError("no score")

    algo = make("DQN")
    with pytest.raises(RuntimeError, match="no score"):
        algo.fit(vectors(True), n_steps=2, n_steps_per_epoch=2, scorers={"score": fails}, logdir=str(tmp_path))
    (model,) = tmp_path.rglob("model_*.pt")
    algo.load_model(str(model))


def test_secret_parameters_reach_neither_console_nor_file_nor_adapter(tmp_path: Path, capsys: Any) -> None:
    given: list[Any] = []

    class Adapter(NoAdapter):
        def write_params(self, params: Any) -> None:
            given.append(params)

    params = {"tracking_uri": "https://me:pw@host", "gamma": 0.9}
    masked = {"tracking_uri": "https://********@host", "gamma": 0.9}

    class Factory(NoopAdapterFactory):
        def create(self, algo: Any, experiment_name: str, n_steps_per_epoch: int) -> Any:
            return Adapter()

    options: dict[str, Any] = {"with_timestamp": False, "logdir": str(tmp_path), "tensorboard": False}
    for factory in (None, Factory()):
        with RunLog(Training(make("DQN"), "run", 1, 1, 1, False, None, logger_adapter=factory, **options), 1) as log:
            log.params(params)
    assert json.loads((tmp_path / "run" / "params.json").read_text()) == masked == given[0]
    assert "me:pw" not in capsys.readouterr().out


def test_the_log_tells_the_reward_convention(recwarn: pytest.WarningsRecorder) -> None:
    rows = np.zeros((40, 4)), np.arange(40) % 3, np.ones(40), np.arange(40) % 10 == 9
    data = MDPDataset(*rows, discrete_action=True, reward_convention="same_row")
    make("DQN").fit(data, n_epochs=1, experiment_name="run", with_timestamp=False, show_progress=False)
    assert json.loads(Path("d3rlpy_logs/run/params.json").read_text())["reward_convention"] == "same_row"
    algos.DQN.from_json("d3rlpy_logs/run/params.json")  # which takes it for no hyperparameter
    assert not [warning for warning in recwarn if "reward_convention" in str(warning.message)]
