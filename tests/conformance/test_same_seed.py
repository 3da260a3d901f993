"""Same seed, same numbers: every agent under every runner but the asynchronous ones, to the bit."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from registry import LEARNERS
from seed_parts import ASYNCHRONOUS, OFFLINE, RUNNERS, course, digest, exemplar

from pfrl_like import experiments
from pfrl_like.testing.play import difference

#: In the default run the first agent of every other family has one of the runners; the slow one has all, and memory.
FAMILIES = dict.fromkeys(entry.family for entry in LEARNERS.values())
AGENTS = [next(name for name, entry in LEARNERS.items() if entry.family is family) for family in FAMILIES][::2]
FIRST = {*zip(AGENTS, itertools.cycle(RUNNERS), itertools.repeat(False))}  # noqa: B905 - cycles have no end
CASES = [
    pytest.param(*case, marks=[] if case in FIRST else pytest.mark.slow)
    for case in itertools.product(LEARNERS, RUNNERS, (False, True))
    if not case[2]
    or (case[0] != "CrossQ" and case[2] in LEARNERS[case[0]].parts["recurrent"])  # some have no such form
]


@pytest.mark.representatives(2)
@pytest.mark.parametrize(("agent", "runner", "recurrent"), CASES)
def test_same_seed_gives_the_same_numbers_and_another_seed_others(
    agent: str, runner: str, recurrent: bool, tmp_path: Path
) -> None:
    first, again, other = (
        course(agent, runner, seed, tmp_path / name, recurrent)
        for name, seed in [("first", 1), ("again", 1), ("other", 2)]
    )
    assert difference(first, again, "course") is None
    assert digest(first) == digest(again)
    if agent != "BC":  # which imitates itself here, and so learns nothing; others are its scores, below
        assert difference(first["state"], other["state"]) is not None
    if runner.endswith("with_evaluation"):
        assert len(first["scores"]) == len(first["history"]) >= 2
        assert first["scores"] != other["scores"]


@pytest.mark.slow
def test_another_process_gives_the_same_numbers(tmp_path: Path) -> None:
    arguments = ("TD3", "train_agent_batch_with_evaluation", 1)
    script = f"""if True:
        import torch
        from pathlib import Path
        from seed_parts import course, digest
        torch.set_num_threads(1)
        print(digest(course(*{arguments}, Path({str(tmp_path / "there")!r}))))
    """
    paths = os.pathsep.join([str(Path(__file__).parents[1] / "support"), *sys.path])
    environ = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "7"}
    there = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True)
    assert there.stdout.split()[-1] == digest(course(*arguments, tmp_path / "here"))


def test_every_runner_is_in_the_tables() -> None:
    public = {name for name in vars(experiments) if name.startswith("train_") and callable(vars(experiments)[name])}
    in_actors = {"train_agent_distributed"}  # tests/unit/experiments/cluster
    assert public == {*RUNNERS} | ASYNCHRONOUS | OFFLINE | in_actors


def test_exemplars_explore() -> None:
    cases = [exemplar(agent) for agent in LEARNERS]
    assert {"ConstantEpsilonGreedy", "AdditiveGaussian"} <= {case.get("explorer") for case in cases}
