"""Put deliberate faults into a copy of the package and show which tests notice: `python benchmarks/faults.py`.

Each fault is a mistake that learning often survives, so that no learning curve tells. Prints the tests that each one
turns red, and fails if one goes unnoticed (or if the tests are not green without a fault).
"""

import dataclasses
import subprocess
import sys
from pathlib import Path

from package_copy import failed_in, package_copy, start_pytest

TESTS = (
    "tests/golden/test_td.py",
    "tests/golden/test_td_loss.py",
    "tests/golden/test_dqn_loss.py",
    "tests/golden/test_categorical_dqn.py",
    "tests/golden/test_advantage_learning.py",
    "tests/unit/agents/test_update.py",
    "tests/unit/agents/test_dqn_arguments.py",
    "tests/conformance/test_agents.py::test_agent_keeps_the_contracts[DQN-3-step prioritized-False]",
    "tests/conformance/test_agents.py::test_agent_keeps_the_contracts[DQN-prioritized episodic-True]",
    "tests/conformance/test_agents.py::test_prioritised_targets_are_the_true_values",
    "tests/conformance/test_agents.py::test_targets_of_sequences_are_the_true_values",
)
SHOWN = 8  # tests of each fault that are printed


@dataclasses.dataclass(frozen=True)
class Fault:
    """A line of the package and what it is replaced by."""

    what: str
    file: str
    line: str
    mistake: str

    def apply(self, package: Path) -> None:
        """Write the mistake into a copy of the package.

        Raises:
            ValueError: If the line is not there exactly once, so that the fault has to be written anew.
        """
        path = package / self.file
        source = path.read_text()
        if source.count(self.line) != 1:
            raise ValueError(f"{self.file} has {self.line!r} {source.count(self.line)} times, expected once")
        path.write_text(source.replace(self.line, self.mistake))


FAULTS = (
    Fault(
        "the sign of the TD error",
        "action_value/base.py",
        "error = target - value  #",
        "error = value - target  #",
    ),
    Fault(
        "the sign of the TD error of targets that are numbers",
        "action_value/base.py",
        "error = target - value\n",
        "error = value - target\n",
    ),
    Fault(
        "the sign of what is bootstrapped",
        "functions/losses.py",
        "return torch.addcmul(reward, discount, next_value)",
        "return torch.addcmul(reward, discount, next_value, value=-1)",
    ),
    Fault(
        "gamma instead of the discount (gamma**n, or 0 after a terminal step)",
        "agents/dqn.py",
        "loss, td_error, value = q.td_loss(batch.action, batch.reward, batch.discount,",
        "loss, td_error, value = q.td_loss(batch.action, batch.reward, batch.discount.max().expand_as(batch.discount),",
    ),
    Fault(
        "no importance weights",
        "agents/dqn.py",
        "weighted_mean(loss, batch.weight, accumulator)",
        "weighted_mean(loss, None, accumulator)",
    ),
    Fault(
        "truncation taken for termination",
        "learning/off_policy.py",
        "batch_reward, batch_obs, batch_done, batch_reset)",
        "batch_reward, batch_obs, ended, batch_reset)",
    ),
    Fault(
        "a target network that never moves",
        "learning/off_policy.py",
        "synchronize_parameters(src, dst,",
        "synchronize_parameters(dst, dst,",
    ),
)


def failed_tests(fault: Fault | None) -> list[str]:
    """The tests that are red with a fault in the package.

    Raises:
        RuntimeError: If the tests could not be run.
    """
    with package_copy() as copy:
        if fault is not None:
            fault.apply(copy / "pfrl_like")
        pytest = start_pytest(copy, "-q", *TESTS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output, _ = pytest.communicate()
    if pytest.returncode not in (0, 1):
        raise RuntimeError(f"pytest ended with {pytest.returncode}:\n{output}")
    return failed_in(output)


def main() -> int:
    before = failed_tests(None)
    print(f"without a fault: {len(before)} tests are red", *before, sep="\n  ")
    unnoticed = bool(before)
    for fault in FAULTS:
        failed = failed_tests(fault)
        print(f"\n{fault.what} ({fault.file}): {len(failed)} tests turn red", *failed[:SHOWN], sep="\n  ")
        if len(failed) > SHOWN:
            print(f"  and {len(failed) - SHOWN} more")
        unnoticed = unnoticed or not failed
    return int(unnoticed)


if __name__ == "__main__":
    sys.exit(main())
