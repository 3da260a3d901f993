"""Loss of a node. Each cluster has two nodes on this machine, and is started by a process of its own."""

import json
from pathlib import Path

import pytest
from python_process import output_of

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

#: Loses the second node twice. After the first loss, another node is started.
SCRIPT = """
import json, logging, os, sys
os.environ.update(
    RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled", RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0"
)
from pathlib import Path

from cluster_parts import cartpole, small_dqn
from pfrl_like.errors import WorkerError
from pfrl_like.experiments.cluster.runner import train_agent_distributed
from ray.cluster_utils import Cluster

health = {f"health_check_{name}_ms": 1000 for name in ("initial_delay", "period")}
options = {"num_cpus": 1, "object_store_memory": 1 << 27}
cluster = Cluster(initialize_head=True, head_node_args={
    **options, "include_dashboard": False, "_system_config": {**health, "health_check_failure_threshold": 3},
})
nodes, texts = [], []

class Texts(logging.Handler):
    def emit(self, record):
        texts.append(record.getMessage())

logging.getLogger("pfrl_like").addHandler(Texts())

def workers(raylet):
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == raylet:
                yield int(path.parent.name)
        except OSError:
            pass

def lose(node, *, with_workers):
    raylet = node.all_processes["raylet"][0].process
    for pid in workers(raylet.pid) if with_workers else ():
        os.kill(pid, 9)
    raylet.kill()

def train(outdir, hook, replace_timeout):
    return train_agent_distributed(
        small_dqn, cartpole, steps=10**9, actors=2, envs_per_actor=2, order="fixed", seed=0, cpus_per_actor=1,
        rows_per_message=(1, 4), outdir=outdir, start_timeout=600, replace_timeout=replace_timeout, hooks=[hook],
        address=cluster.address, progress=False,
    )[0]

def replaced(clock):
    if clock.t >= 100 and len(nodes) == 1:
        nodes.append(None)
        lose(nodes[0], with_workers=False)
    if len(nodes) == 2 and any("its node" in text for text in texts):
        nodes.append(cluster.add_node(**options))
    if len(nodes) == 3 and clock.t >= 200:
        clock.stop()

nodes.append(cluster.add_node(**options))
train(sys.argv[1] + "/a", replaced, 600)
answer = {"counts": json.loads(Path(sys.argv[1], "a", "losses.json").read_text())}

def lost(clock):
    if clock.t >= 100 and len(nodes) == 3:
        nodes.append(None)
        lose(nodes[2], with_workers=True)

try:
    train(sys.argv[1] + "/b", lost, 3)
except WorkerError as error:
    answer["error"] = str(error)
answer["later"] = json.loads(Path(sys.argv[1], "b", "losses.json").read_text())
print("answer" + json.dumps(answer | {"texts": texts}))
cluster.shutdown()
"""


def test_a_lost_node_is_told_from_a_lost_process_and_has_its_own_limit(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    output = output_of(str(tmp_path / "script.py"), str(tmp_path), folder=tmp_path, timeout=600)
    answer = json.loads(next(line for line in output.splitlines() if line.startswith("answer"))[6:])
    for counts in (answer["counts"], answer["later"]):
        assert (counts["lost_nodes"], counts["lost_processes"]) == (1, 0), answer
    assert "has not started within 3 s: Ray could not schedule it. The actors need 2 CPUs in all" in answer["error"]
