"""Every example runs a few steps on a bare CPU and leaves what it says it leaves."""

import importlib
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfrl_like.dataset import MDPDataset

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(
    str(path.relative_to(EXAMPLES))
    for path in EXAMPLES.rglob("*.py")
    if path.name not in ("common.py", "table_of_scores.py", "train_pybullet.py", "train_atari.py")  # these need data
)
ATARI = [name for name in NAMES if name.startswith("atari/")]
MUJOCO = [name for name in NAMES if name.startswith("mujoco/")]

#: An update needs a filled buffer: the trainers are told to begin early, so that they learn, too.
EARLY = ["--replay-start-size", "40", "--minibatch-size", "8", "--eval-n-runs", "1"]
EARLY_SCORE = ["--eval-n-runs", "1", "--eval-interval", "60"]
EARLY_PIXELS = ["--replay-start-size", "90", "--batch-size", "4", *EARLY_SCORE]
EARLY_ROLLOUT = ["--update-interval", "50", "--epochs", "2", *EARLY_SCORE]
SHORT_GAMES = ["--max-frames", "100", "--n-best-episodes", "1"]

#: What the trainers are told in place of the above, if anything.
EARLY_OF = {
    "gym/train_ppo.py": EARLY_ROLLOUT,
    "gym/train_reinforce.py": ["--batchsize", "1", "--eval-n-runs", "1"],
    "gym/train_async.py": ["--eval-n-runs", "1", "--replay-start-size", "20"],
    "mujoco/train_ppo.py": EARLY_ROLLOUT,
    "mujoco/train_trpo.py": ["--update-interval", "50", "--eval-n-runs", "1"],
    "atari/train_ppo_batch_ale.py": [*EARLY_ROLLOUT, *SHORT_GAMES, "--batch-size", "10"],
    "atari/train_a2c_batch_ale.py": [*SHORT_GAMES, *EARLY_SCORE],
    "atari/train_a3c_ale.py": [*SHORT_GAMES, *EARLY_SCORE],
    "atari/train_acer_ale.py": [*SHORT_GAMES, *EARLY_SCORE, "--replay-start-size", "9"],
}
EARLY_IN = {
    "gym": EARLY,
    "atari": EARLY_PIXELS + SHORT_GAMES,
    "minatar": EARLY_PIXELS,
    "mujoco": ["--replay-start-size", "90", "--batch-size", "4", "--eval-n-runs", "1"],
    "offline": ["--eval-n-runs", "1"],
}
PACKAGES = {"atari": "ale_py", "minatar": "minatar", "mujoco": "mujoco", "offline": "sklearn"}


def early(example: str) -> list[str]:
    """What makes a trainer learn within a hundred steps."""
    several = ["--num-envs", "2"] if "batch" in example or "actor_learner_ale" in example else []
    return [*several, *EARLY_OF.get(example, EARLY_IN.get(example.split("/")[0], []))]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Run an example in an empty folder as its command line would, and return what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(example: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [example, *arguments])
        monkeypatch.syspath_prepend(str((EXAMPLES / example).parent))
        monkeypatch.delitem(sys.modules, "common", raising=False)  # each folder has its own
        runpy.run_path(str(EXAMPLES / example), run_name="__main__")
        return capsys.readouterr().out

    return run


def saved_by(output: str) -> Path:
    """The agent that an example says that it has saved."""
    return Path(output.split("--load ")[1].strip())


@pytest.fixture
def demonstrate(run):
    """Let an example show a saved agent, and check that it tells the score."""

    def demonstrate(example: str, *flags: str, load: Any) -> None:
        assert "mean:" in run(example, *flags, "--demo", "--load", str(load), "--eval-n-runs", "1")

    return demonstrate


@pytest.mark.slow
def test_parts_are_checked(run):
    assert "every part keeps its contracts" in run("check_your_parts.py")


@pytest.mark.slow
def test_an_exported_policy_plays_where_the_library_is_not(run):
    assert "without pfrl_like" in run("export_policy.py", "--steps", "100", "--format", ".pt")


#: Quick ones that stand for all in a default run.
SHORT = ["custom_env.py", "gym/train_dqn_her_bit_flipping.py", "gym/train_ppo.py", "offline/own_data.py"]


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(name, marks=[] if name in SHORT else pytest.mark.slow)
        for name in NAMES
        if name not in ("check_your_parts.py", "export_policy.py")  # which have tests above
    ],
)
def test_example_runs_a_hundred_steps(example, run):
    if example.split("/")[0] in PACKAGES:
        pytest.importorskip(PACKAGES[example.split("/")[0]])
    assert run(example, "--steps", "100", *early(example))


@pytest.mark.parametrize(
    ("example", "choice"),
    [
        ("atari/train_dqn_ale.py", ["--arch", "nips", "--agent", "PAL", "--prioritized", "--num-step-return", "3"]),
        ("atari/train_dqn_ale.py", ["--arch", "dueling", "--noisy-net-sigma", "0.5", "--no-clip-delta"]),
        ("atari/train_dqn_batch_ale.py", ["--agent", "DoubleDQN", "--num-envs", "2"]),
        ("atari/train_dqn_actor_learner_ale.py", ["--agent", "DoubleDQN", "--num-envs", "2", "--free"]),
        ("atari/train_categorical_dqn_ale.py", ["--agent", "CategoricalDoubleDQN", "--noisy-net-sigma", "0.5"]),
        ("atari/train_iqn_ale.py", ["--agent", "DoubleIQN", "--act-deterministically"]),
        ("atari/train_drqn_ale.py", ["--recurrent", "--flicker", "--no-frame-stack", "--episodic-update-len", "4"]),
        ("atari/train_acer_ale.py", ["--use-lstm", "--profile"]),
        ("atari/train_a2c_batch_ale.py", ["--use-gae"]),
        ("atari/train_ppo_batch_ale.py", ["--recurrent"]),
        ("minatar/train_dqn.py", ["--agent", "DoubleDQN", "--env", "SpaceInvaders"]),
    ],
)
@pytest.mark.slow
def test_choices_of_the_pixel_examples_run(example, choice, run):
    pytest.importorskip(PACKAGES[example.split("/")[0]])
    often = [] if example in EARLY_OF else ["--update-interval", "5"]
    assert "Results are in" in run(example, "--steps", "100", *early(example), *choice, *often)


@pytest.mark.representatives(1)
@pytest.mark.parametrize(
    ("example", "choice"),
    [
        ("gym/train_reinforce.py", ["--env", "Pendulum-v1"]),
        ("gym/train_ppo.py", ["--env", "Pendulum-v1"]),
        ("gym/train_actor_critic_pendulum.py", ["--agent", "TD3", "--num-step-return", "3"]),
        ("gym/train_actor_critic_pendulum.py", ["--agent", "DDPG", "--prioritized-replay"]),
        pytest.param("gym/train_async.py", ["--agent", "ACER"], marks=pytest.mark.slow),
    ],
)
def test_choices_of_the_small_actor_critics_learn_and_are_demonstrated(example, choice, run, demonstrate):
    output = run(example, "--steps", "220", *early(example), *choice)
    demonstrate(example, *choice, load=saved_by(output))


@pytest.mark.parametrize("example", ATARI + MUJOCO)
def test_no_trainer_downloads_anything(example, run, capsys):
    with pytest.raises(SystemExit):
        run(example, "--load-pretrained")
    assert "--load-pretrained downloads nothing: name the directory" in capsys.readouterr().err


@pytest.mark.slow
def test_a_saved_atari_agent_can_be_demonstrated_and_monitored(run, tmp_path):
    pytest.importorskip("ale_py")
    output = run("atari/train_dqn_ale.py", "--steps", "5", "--eval-interval", "9", "--arch", "nature")
    told = saved_by(output)
    demo = ["--arch", "nature", "--demo", "--eval-n-runs", "1", "--max-frames", "40"]
    assert "mean:" in run("atari/train_dqn_ale.py", *demo, "--load", str(told))
    assert len(list(tmp_path.glob("results/*"))) == 1
    assert "mean:" in run("atari/train_dqn_ale.py", *demo, "--load", str(told), "--monitor")
    assert list(tmp_path.glob("results/*/monitor.*.csv")) and list(tmp_path.glob("results/*/monitor.*.video*"))
    told.rename(told.parent / "final")
    pretrained = ["--load-pretrained", str(told.parent), "--pretrained-type", "final"]
    assert "mean:" in run("atari/train_dqn_ale.py", *demo, *pretrained)


def test_a_saved_minatar_agent_can_be_demonstrated(run, demonstrate):
    pytest.importorskip("minatar")
    example = "minatar/train_iqn.py"
    demonstrate(example, load=saved_by(run(example, "--steps", "5", "--eval-interval", "9")))


@pytest.mark.parametrize(
    "example", [pytest.param(name, marks=[] if name == "mujoco/train_td3.py" else pytest.mark.slow) for name in MUJOCO]
)
def test_a_saved_mujoco_agent_can_be_demonstrated(example, run, demonstrate, tmp_path):
    pytest.importorskip("mujoco")
    told = saved_by(run(example, "--steps", "100", "--outdir", "runs", *early(example)))
    (record,) = tmp_path.glob("runs/*/run.json")
    assert json.loads(record.read_text())["versions"]["mujoco"]
    demonstrate(example, load=told)
    told.rename(told.parent / "final")
    pretrained = ["--load-pretrained", str(told.parent), "--pretrained-type", "final"]
    assert "mean:" in run(example, "--demo", *pretrained, "--eval-n-runs", "1")
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
@pytest.mark.parametrize("example", ["mujoco/train_ppo.py", "mujoco/train_td3.py"])
def test_mujoco_trainers_learn_in_several_environments_and_record_evaluations(example, run, tmp_path):
    arguments = [*early(example), "--env", "Pendulum-v1", "--num-envs", "2", "--monitor", "--eval-interval", "50"]
    assert "Results are in" in run(example, "--steps", "100", *arguments)
    assert list(tmp_path.glob("results/*/monitor.*.csv")) and list(tmp_path.glob("results/*/monitor.*.video*"))


@pytest.mark.parametrize(("agent", "folder"), [("TD3", "td3"), ("SoftActorCritic", "soft_actor_critic")])
def test_scores_of_reproductions_are_those_recorded(agent, folder, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(EXAMPLES.parent / "benchmarks"))
    scores = importlib.import_module("scores")
    scores.print_table([line for line in scores.read_results(scores.RESULTS) if line["agent"] == agent])
    rows = (row.split(" | ") for row in capsys.readouterr().out.splitlines())
    recorded = {(task.lstrip("| "), steps, score) for task, _, steps, _, score, *_ in rows}
    text = (EXAMPLES / "mujoco/reproduction" / folder / "README.md").read_text()
    told = [row.strip("| ").split(" | ") for row in text.splitlines() if "-v5 | " in row and "," in row]
    assert told and {(env.lower()[:-3], steps, score) for env, steps, _, score, _ in told} <= recorded


def test_scores_of_finished_runs_become_a_table(run, tmp_path, capsys):
    record = {"agent": "TD3", "env": "Hopper-v5", "steps": 100, "versions": {"mujoco": "3.17.0"}}
    runs = [("a", 0, "finished", "1 7 5"), ("b", 1, "finished", "1 9 9"), ("c", 2, "x", "3")]
    for name, seed, outcome, means in runs:
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps(record | {"outcome": outcome}))
        (tmp_path / name / "args.txt").write_text(json.dumps({"seed": seed}))
        (tmp_path / name / "scores.txt").write_text("\n".join(["steps\tmean", *(f"9\t{m}" for m in means.split())]))
    table = run("mujoco/reproduction/table_of_scores.py", str(tmp_path))
    # Two seeds are drawn as (5, 5), (5, 9), (9, 5) or (9, 9): an interval of 95 % holds the least and the largest mean.
    assert "| TD3 | Hopper-v5 | 100 | 0, 1 | 7.0 [5.0, 9.0] | 8.0 [7.0, 9.0] |" in table
    assert '{"mujoco": "3.17.0"}' in table
    with pytest.raises(SystemExit, match="no finished run"):
        run("mujoco/reproduction/table_of_scores.py", str(tmp_path / "c"))


@pytest.mark.parametrize(
    ("default", "given", "runs", "steps"),
    [
        ({}, [], 10, None),
        ({}, ["--eval-n-steps", "7"], None, 7),
        ({"eval_n_steps": 9}, [], None, 9),
        ({"eval_n_steps": 9}, ["--eval-n-runs", "3"], 3, None),
    ],
)
def test_the_length_of_an_evaluation_is_named_and_either_flag_replaces_it(monkeypatch, default, given, runs, steps):
    common = runpy.run_path(str(EXAMPLES / "atari/common.py"))
    parser = common["make_parser"]("")
    monkeypatch.setattr(sys, "argv", ["train.py", *given])
    args = common["parse"](parser, **default)
    assert (args.eval_n_runs, args.eval_n_steps) == (runs, steps)
    assert f"(default: {9 if default else 10})" in parser.format_help()


@pytest.mark.slow
def test_evaluations_of_so_many_steps_choose_the_agent_that_plays_at_last(run, tmp_path):
    pytest.importorskip("ale_py")
    early = ["--steps", "90", "--replay-start-size", "80", "--batch-size", "4", "--eval-interval", "40"]
    output = run("atari/train_rainbow_ale.py", *early, *SHORT_GAMES, "--eval-n-steps", "60", "--n-best-episodes", "2")
    assert "n_runs: 2 mean:" in output
    (scores,) = tmp_path.glob("results/*/bestscores.json")
    assert json.loads(scores.read_text())["episodes"] == 2


def test_quickstart_leaves_an_agent_and_a_learning_curve(run, tmp_path):
    output = run("quickstart.py", "--steps", "100", "--eval-interval", "50", "--eval-n-runs", "2")
    assert "mean return over 2 episodes" in output
    (outdir,) = (tmp_path / "results/quickstart").iterdir()
    for name in ("agent/manifest.json", "scores.txt", "learning_curve.svg", "report.html"):
        assert (outdir / name).stat().st_size > 0, name


def test_a_saved_agent_can_be_demonstrated(run, demonstrate, tmp_path):
    told = saved_by(run("gym/train_dqn.py", "--steps", "60", *EARLY))
    (saved,) = tmp_path.glob("results/*/60_finish")
    assert saved.samefile(told)
    demonstrate("gym/train_dqn.py", load=told)


@pytest.mark.parametrize(
    ("example", "choice"),
    [
        ("gym/train_distributional.py", ["--agent", "IQN"]),
        pytest.param("gym/train_rainbow.py", [], marks=pytest.mark.slow),
        *(
            pytest.param("gym/train_distributional.py", ["--agent", agent], marks=pytest.mark.slow)
            for agent in ("DoubleIQN", "QRDQN", "FQF")
        ),
    ],
)
def test_distributional_agents_learn_and_are_demonstrated(run, demonstrate, tmp_path, example, choice):
    often = ["--update-interval", "10", "--target-update-interval", "10", "--n-times-update", "2"]
    output = run(example, *choice, "--steps", "100", "--eval-interval", "50", *EARLY, *often)
    (scores,) = tmp_path.glob("results/*/scores.txt")
    header, *_, last = (line.split("\t") for line in scores.read_text().splitlines())
    assert dict(zip(header, last, strict=True))["n_updates"] == "12"  # two at each of the steps 50, 60, ..., 100
    demonstrate(example, *choice, load=saved_by(output))


@pytest.mark.parametrize(
    ("example", "env", "actions"),
    [
        *(
            (f"gym/train_{name}.py", env, "discrete")
            for name in ("dqn", "categorical_dqn", "distributional", "rainbow")
            for env in ("Pendulum-v1", "FrozenLake-v1")
        ),
        ("gym/train_actor_critic_pendulum.py", "CartPole-v1", "continuous"),
        ("gym/train_ppo.py", "FrozenLake-v1", "discrete or continuous"),
        ("mujoco/train_trpo.py", "CartPole-v1", "continuous"),
    ],
)
def test_environments_that_do_not_fit_are_refused(run, example, env, actions):
    with pytest.raises(SystemExit, match=f"{env} has the observations .* needs vectors and {actions} actions"):
        run(example, "--env", env)


def test_a_table_of_ones_own_is_learnt_from(run, tmp_path):
    rows = ["x,push,gain,over,run", "1,0,0.5,0,1", "2,1,0.25,0,1", "3,0,1,1,1", "4,1,0,0,2", "5,0,0,0,2", "6,1,0,0,2"]
    (tmp_path / "own.csv").write_text("\n".join(rows))
    columns = ["--observations", "x", "--action", "push", "--reward", "gain", "--terminal", "over", "--episode", "run"]
    output = run("offline/own_data.py", "--csv", "own.csv", *columns, "--steps", "3", "--outdir", "out")
    assert "2 episodes, 5 steps" in output  # what came of the last one is not known
    (saved,) = tmp_path.glob("out/*/own.npz")
    dataset = MDPDataset.load(saved)
    assert [list(episode.rewards[1:]) for episode in dataset.episodes] == [[0.5, 0.25, 1.0], [0.0, 0.0]]
    with pytest.raises(SystemExit, match="own.csv has no column room, outside, .* name yours by the flags"):
        run("offline/own_data.py", "--csv", "own.csv", "--action", "push")


@pytest.mark.slow
def test_pixels_of_recorded_games_are_learnt_from(run, tmp_path, monkeypatch):
    pytest.importorskip("ale_py")
    monkeypatch.setenv("PFRL_LIKE_DATA", str(tmp_path))
    folder = tmp_path / "atari" / "Freeway" / "1"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    columns = {
        "observation": rng.integers(0, 256, (90, 84, 84), dtype=np.uint8),
        "action": rng.integers(0, 3, 90).astype(np.int32),
        "reward": np.zeros(90, np.float32),
        "terminal": np.arange(90) % 30 == 29,
    }
    for name, array in columns.items():
        np.save(folder / f"{name}-0.npy", array.astype(np.uint8) if name == "terminal" else array)
    output = run("offline/train_atari.py", "--dataset", "freeway-mixed-v0", "--steps", "2", "--eval-n-runs", "1")
    assert "policy.pt" in output


@pytest.mark.slow
def test_a_recorded_hopper_is_learnt_from(run, tmp_path, monkeypatch):
    pytest.importorskip("pybullet_envs_gymnasium")
    h5py = pytest.importorskip("h5py")
    monkeypatch.setenv("PFRL_LIKE_DATA", str(tmp_path))
    (tmp_path / "pybullet").mkdir()
    rng = np.random.default_rng(0)
    with h5py.File(tmp_path / "pybullet" / "bullet-hopper-medium-replay-v0.hdf5", "w") as file:
        file["observations"] = rng.standard_normal((400, 15)).astype(np.float32)
        file["actions"] = rng.uniform(-1, 1, (400, 3)).astype(np.float32)
        file["rewards"], file["terminals"] = rng.standard_normal(400), np.arange(400) % 30 == 29
    assert "policy.pt" in run("offline/train_pybullet.py", "--steps", "3", "--eval-n-runs", "1", "--algo", "BC")


def test_fewer_steps_than_a_minibatch_are_enough(run):
    assert "after 3 steps" in run("custom_q_function.py", "--steps", "3")
