"""How often the intervals of off-policy evaluation hold the truth, on tabular MDPs whose values are known exactly.

    python benchmarks/ope_coverage.py --results benchmarks/results/ope_coverage.jsonl
    python benchmarks/ope_coverage.py --table

Each line of the results is an MDP, an estimator and a kind of interval; what is there is not measured again.
"""

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from measured_once import measured_once, parser_of
from numpy.typing import NDArray

from pfrl_like import ope
from pfrl_like.ope.estimates import KINDS

Array = NDArray[Any]
ESTIMATORS: dict[str, Callable[..., ope.Estimate]] = {
    "is": ope.importance_sampling,
    "wis": ope.weighted_importance_sampling,
    "pdis": ope.per_decision_importance_sampling,
    "wpdis": ope.weighted_per_decision_importance_sampling,
    "dr": ope.doubly_robust,
    "wdr": ope.weighted_doubly_robust,
    "magic": ope.magic,
}
MODEL_ERROR = 0.1  # standard deviation of the model's errors, as a share of that of its values


@dataclasses.dataclass(frozen=True)
class Task:
    """A tabular MDP of a finite horizon, and two policies.

    Attributes:
        transition: P(s'|s, a), [S, A, S + 1]; the last state is the end.
        reward: Mean reward of (s, a), [S, A]; a normal deviate of deviation 0.3 is put on it.
        behavior: The policy that acts, [S, A].
        target: The policy that is evaluated, [S, A].
        horizon: Steps after which an episode is over.
        n_episodes: Episodes of a data set.
        gamma: Discount factor.
    """

    transition: Array
    reward: Array
    behavior: Array
    target: Array
    horizon: int
    n_episodes: int
    gamma: float = 0.95

    def values(self) -> tuple[Array, Array]:
        """Q and V of the evaluated policy with so many steps left, [H + 1, S, A] and [H + 1, S + 1]."""
        size = len(self.reward)
        q, v = np.zeros((self.horizon + 1, *self.reward.shape)), np.zeros((self.horizon + 1, size + 1))
        for left in range(1, self.horizon + 1):
            q[left] = self.reward + self.gamma * self.transition @ v[left - 1]
            v[left, :size] = (self.target * q[left]).sum(1)
        return q, v

    @property
    def truth(self) -> float:
        """The value of the first state, 0."""
        return float(self.values()[1][self.horizon, 0])

    def episodes(self, rng: np.random.Generator, q: Array, v: Array) -> ope.LoggedEpisodes:
        """A data set of the behaviour policy, with a model's values."""
        columns: list[Array] = []
        state, alive = np.zeros(self.n_episodes, int), np.arange(self.n_episodes)
        for t in range(self.horizon):
            action = _drawn(rng, self.behavior[state])
            left = self.horizon - t
            reward = self.reward[state, action] + 0.3 * rng.normal(size=len(state))
            of_policies = [np.log(policy[state, action]) for policy in (self.target, self.behavior)]
            model = q[left][state, action], v[left][state]
            columns.append(np.stack([alive, np.full(len(alive), t), reward, *of_policies, *model]))
            following = _drawn(rng, self.transition[state, action])
            goes_on = following < len(self.reward)
            state, alive = following[goes_on], alive[goes_on]
        rows = np.concatenate(columns, axis=1)
        rows = rows[:, np.lexsort((rows[1], rows[0]))]
        lengths = np.bincount(rows[0].astype(int), minlength=self.n_episodes)
        _, _, reward, target, behavior, q_column, v_column = rows
        return ope.LoggedEpisodes.from_columns(reward, target, behavior, lengths, q=q_column, v=v_column)


def _drawn(rng: np.random.Generator, probabilities: Array) -> Array:
    return np.asarray((probabilities.cumsum(-1) < rng.random((len(probabilities), 1))).sum(-1))


def random_task(seed: int, n_states: int, horizon: int, n_episodes: int, greed: float, end: float) -> Task:
    """An MDP drawn at random; the evaluated policy is the behaviour policy times exp(greed * r), normalised."""
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.ones(n_states), size=(n_states, 3)) * (1 - end)
    transition = np.concatenate([transition, np.full((n_states, 3, 1), end)], axis=2)
    reward = rng.normal(size=(n_states, 3))
    behavior = rng.dirichlet(np.full(3, 5.0), size=n_states)
    target = behavior * np.exp(greed * reward)
    return Task(transition, reward, behavior, target / target.sum(1, keepdims=True), horizon, n_episodes)


#: Near and far policies, short and long episodes, few and many of them.
TASKS: dict[str, Task] = {
    "short": random_task(0, 4, 5, 100, 0.5, 0.1),
    "long": random_task(1, 6, 20, 200, 0.25, 0.0),
    "varied lengths": random_task(2, 6, 15, 200, 0.4, 0.15),
    "few episodes": random_task(3, 4, 5, 50, 0.3, 0.1),
    "far apart": random_task(4, 4, 10, 200, 0.8, 0.1),
}


def measured(task: Task, estimator: str, kind: str, n_sets: int, n_resamples: int, seed: int) -> dict[str, Any]:
    """Coverage, width and error over data sets, the same for every estimator and kind of a seed."""
    q, v = task.values()
    noise = np.random.default_rng(100)
    q = q + MODEL_ERROR * q.std() * noise.normal(size=q.shape)
    v = np.concatenate([(task.target * q).sum(2), v[:, -1:]], axis=1)
    found, base = [], [seed] * (seed > 0)
    for i in range(n_sets):
        episodes = task.episodes(np.random.default_rng([i, 1, *base]), q, v)
        settings = ope.Bootstrap(kind, n_resamples=n_resamples, rng=np.random.default_rng([i, 2, *base]))
        found.append(ESTIMATORS[estimator](episodes, task.gamma, settings))
    low, high = np.array([each.interval for each in found]).T
    values = np.array([each.value for each in found])
    sizes = [each.effective_sample_size for each in found]
    return {
        "coverage": float(((low <= task.truth) & (task.truth <= high)).mean()),
        "below": float((high < task.truth).mean()), "above": float((low > task.truth).mean()),
        "truth": task.truth, "bias": float(values.mean() - task.truth), "deviation": float(values.std()),
        "width": float(np.median(high - low)), "effective_sample_size": float(np.median(sizes)),
        "warned": float(np.mean([each.warning != "" for each in found])),
    }  # fmt: skip


def cases(options: Any) -> Iterator[dict[str, Any]]:
    for task in options.tasks:
        for estimator in options.estimators:
            for kind in options.kinds:
                yield {"task": task, "estimator": estimator, "kind": kind, "sets": options.sets,
                       "resamples": options.resamples, "seed": options.seed}  # fmt: skip


def table(lines: list[dict[str, Any]]) -> str:
    """Coverage in per cent by task and kind, a column for each estimator."""
    rows = ["| MDP | effective sample size | interval | " + " | ".join(ESTIMATORS) + " |", "|---" * 10 + "|"]
    known = {(line["task"], line["kind"], line["estimator"]): line for line in lines}
    for task, kind in dict.fromkeys((line["task"], line["kind"]) for line in lines):
        of_row = [known.get((task, kind, name)) for name in ESTIMATORS]
        sizes = [line["effective_sample_size"] for line in of_row if line]
        cells = ["" if line is None else f"{100 * line['coverage']:.1f}" for line in of_row]
        rows.append(f"| {task} | {sizes[0]:.0f} of {TASKS[task].n_episodes} | {kind} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main() -> None:
    parser = parser_of(__doc__, "ope_coverage")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--estimators", nargs="+", default=list(ESTIMATORS), choices=ESTIMATORS)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--sets", type=int, default=500, help="data sets of each MDP")
    parser.add_argument("--resamples", type=int, default=1000, help="of each interval")
    parser.add_argument("--seed", type=int, default=0, help="of the data sets and resamples")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ope.UnreliableEstimateWarning)

    def measure(case: dict[str, Any]) -> dict[str, Any]:
        task, *others = case.values()
        return measured(TASKS[task], *others)

    lines = measured_once(options, cases(options), measure, {"seed": 0})
    print(table([line for line in lines if line["seed"] == options.seed]))


if __name__ == "__main__":
    main()
