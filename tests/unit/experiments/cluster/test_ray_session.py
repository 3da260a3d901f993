import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import process_table as processes
import pytest
from cluster_parts import cartpole, small_dqn

from pfrl_like.experiments.cluster.runner import train_agent_distributed
from pfrl_like.runs.loop import Terminated

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

#: Trains until it is stopped, in a Ray of its own. A lambda and the script's own functions reach the actors.
SCRIPT = """
import sys

from cluster_parts import cartpole, small_dqn
from pfrl_like.experiments.cluster.runner import train_agent_distributed

if __name__ == "__main__":
    train_agent_distributed(
        small_dqn, lambda *arguments: cartpole(*arguments), steps=int(sys.argv[2]), outdir=sys.argv[1],
        actors=int(sys.argv[3]), learners=int(sys.argv[3]), envs_per_actor=2,
        order="fixed", seed=0, resume=True, rows_per_message=(1, 4), progress=False,
        start_timeout=300, checkpoint_freq=400, keep_checkpoints=2,
    )
"""


@pytest.fixture
def run(tmp_path):
    """Starts the script in a process group of its own, and kills the group at the end."""
    script, started = tmp_path / "script.py", []
    script.write_text(SCRIPT)
    root = Path(__file__).parents[4]
    paths = os.pathsep.join(map(str, (root, root / "tests" / "support")))
    environment = {**os.environ, "PYTHONPATH": paths, "NAME_OF_THE_RUN": str(tmp_path)}

    def start(steps, *before, learners=1):
        process = subprocess.Popen(
            [*before, sys.executable, str(script), str(tmp_path / "run"), str(steps), str(learners),
             "--token=s3cr3t-w0rd"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wait_for(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)
    return found


def folders_of(process):
    return list(Path("/tmp").glob(f"pfrl_like-ray-{process.pid}-*"))


def metrics(tmp_path):
    path = tmp_path / "run" / "metrics.csv"
    return path.exists() and path.stat().st_size


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)])
def test_a_signal_leaves_a_checkpoint_from_which_the_run_resumes_exactly_and_no_process(run, tmp_path, signum, status):
    process = run(10**9)
    wait_for(lambda: metrics(tmp_path))
    members = processes.of_ray(tmp_path)
    assert members
    os.killpg(process.pid, signum) if signum == signal.SIGINT else process.send_signal(signum)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == status, errors
    wait_for(lambda: not processes.alive(members))
    assert not folders_of(process)
    assert output == ""
    saved = next(path for path in (tmp_path / "run").iterdir() if path.name.endswith("_except"))
    assert (saved / "run" / "manifest.json").exists()
    t = int(saved.name.partition("_")[0])
    process = run(t + 8)
    assert process.wait(120) == 0
    assert '"resume": "exact"' in (tmp_path / "run" / "run.json").read_text()


def test_sigterm_in_a_program_that_has_called_ray_init_leaves_a_checkpoint(ray, tmp_path):
    def handler(signum, frame):
        raise SystemExit(signum)

    handler.__module__ = "ray._private.worker"  # as that of `ray.init`
    before = signal.signal(signal.SIGTERM, handler)
    try:
        with pytest.raises(Terminated):
            train_agent_distributed(
                small_dqn, cartpole, steps=10**9, actors=1, envs_per_actor=2, outdir=tmp_path, start_timeout=300,
                cpus_per_actor=0, hooks=[lambda clock: clock.t >= 40 and os.kill(os.getpid(), signal.SIGTERM)],
                checkpoint_freq=10**6,
            )  # fmt: skip
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [*tmp_path.glob("*_except/run/manifest.json")]


@pytest.mark.parametrize("learners", [1, 2])
def test_every_listener_is_on_loopback_and_no_log_has_a_secret(run, tmp_path, learners):
    process = run(10**9, learners=learners)
    wait_for(lambda: metrics(tmp_path))
    members = processes.of_ray(tmp_path)
    addresses = processes.listeners(members | {process.pid})
    assert addresses
    assert all(address.startswith(("127.", "::1", "::ffff:127.")) for address in addresses), addresses
    logs = [path for folder in folders_of(process) for path in folder.glob("**/*") if path.is_file()]
    assert logs
    assert not [path for path in logs if b"s3cr3t-w0rd" in path.read_bytes()]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)


def test_after_kill_9_no_process_is_left_and_the_next_run_removes_the_folder(run, tmp_path):
    process = run(10**9)
    wait_for(lambda: metrics(tmp_path))
    members = processes.of_ray(tmp_path)
    process.kill()
    process.communicate()
    (folder,) = folders_of(process)
    wait_for(lambda: not processes.alive(members), seconds=90)
    os.utime(folder, (0, 0))
    assert run(0).wait(120) == 0
    assert not folder.exists()


def test_a_lost_head_ends_the_driver_and_another_try_resumes(run, tmp_path):
    process = run(10**9, sys.executable, "-m", "pfrl_like", "keep-running", "--")
    wait_for(lambda: [*(tmp_path / "run").glob("*_checkpoint/run/manifest.json")])
    members = processes.of_ray(tmp_path)
    head = processes.with_program(members, "gcs_server", "raylet")
    assert len(head) == 2
    for pid in head:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: '"resumed": {' in (tmp_path / "run" / "run.json").read_text())
    members |= processes.of_ray(tmp_path)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 143, errors
    assert "1 of at most 10 tries in 60 minutes failed: it starts again in 1 s" in errors
    assert "steps that were made or on their way after the checkpoint are lost" not in errors  # the order is fixed
    wait_for(lambda: not processes.alive(members), seconds=90)
