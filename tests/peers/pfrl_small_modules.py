"""Numbers of PFRL's small modules: one code for `pfrl` and `pfrl_like`.

Run by a peer's interpreter, `python tests/peers/pfrl_small_modules.py FILE` writes the results as JSON there.
"""

import importlib
import json
import multiprocessing
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch


class Counting:
    """Environment with episodes of n steps; the reward of step i is i times the action, 1 if the action is None."""

    def __init__(self, n: int) -> None:
        self.n, self.resets = n, 0
        self.drawn: list[Any] = []

    def reset(self) -> Any:
        self.t = 0
        self.resets += 1
        return np.float32([0])

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.float32([self.t]), float(self.t) * (1 if action is None else action), self.t >= self.n, {}

    def render(self, *args: Any, **kwargs: Any) -> None:
        self.drawn.append([args, kwargs])

    def close(self) -> None:
        self.drawn.append("closed")

    def get_statistics(self) -> list[tuple[str, Any]]:
        return [("resets", self.resets)]

    def clear_statistics(self) -> None:
        self.resets = 0


class Recording:
    """Agent that records what it is told in training, and the names under which it is saved."""

    def __init__(self) -> None:
        self.training, self.calls = True, 0
        self.saved: list[str] = []
        self.observed: list[Any] = []

    def act(self, obs: Any) -> None:
        self.calls += 1

    def observe(self, obs: Any, reward: float, done: bool, reset: bool) -> None:
        self.calls += 1
        if self.training:
            self.observed.append([float(obs[0]), reward, done, reset])

    def get_statistics(self) -> list[tuple[str, Any]]:
        return [("calls", self.calls)]

    def save(self, dirname: str) -> None:
        os.makedirs(dirname, exist_ok=True)
        self.saved.append(Path(dirname).name)

    @contextmanager
    def eval_mode(self) -> Iterator[None]:
        self.training = False
        yield
        self.training = True


def filters(lib: str) -> Any:
    module = importlib.import_module(f"{lib}.utils.reward_filter")
    made = module.NormalizedRewardFilter(0.25, 2, 0.1), module.NormalizedRewardFilter(), module.AverageRewardFilter(0.5)
    return [[each(reward) for reward in (1.0, -2.0, 0.5, 3.0)] for each in made]


def modifiers(lib: str) -> Any:
    module = importlib.import_module(f"{lib}.utils.env_modifiers")
    results = []
    for name, arguments in (
        ("timestep_limited", [3]),
        ("action_filtered", [lambda action: action + 1]),
        ("reward_filtered", [lambda reward: 10 * reward]),
        ("reward_clipped", [-1, 2]),
        ("action_repeated", [3]),
        ("rendered", ["human"]),
    ):
        env = Counting(7)
        getattr(module, f"make_{name}")(env, *arguments)
        env.reset()
        results.append([[float(obs[0]), float(r), done] for obs, r, done, _ in (env.step(a) for a in (1.0, 2.0, 3.0))])
        env.close()
        results.append(env.drawn)
    return results


def queues(lib: str) -> Any:
    module = importlib.import_module(f"{lib}.collections.prioritized")
    np.random.seed(0)
    sums, minima, results = module.SumTreeQueue(), module.MinTreeQueue(), []
    for i in range(300):
        weight = float(np.random.randint(1, 100))
        action = np.random.randint(4)
        if action == 0 and sums.length:
            results.append([sums.popleft(), minima.popleft()])
        elif action == 1 and sums.length:
            at = i % sums.length
            sums[at] = minima[at] = weight
        elif action == 2 and sums.length > 3:
            results.append(sums.prioritized_sample(3, remove=False))
        else:
            sums.append(weight)
            minima.append(weight)
        results.append([sums.length, sums.sum(), minima.min() if minima.length else None])
    return results


def functions(lib: str) -> Any:
    def module(name: str) -> Any:
        return importlib.import_module(f"{lib}.{name}")

    torch.manual_seed(0)
    np.random.seed(1)
    explore = module("explorers.epsilon_greedy").select_action_epsilon_greedily
    results: list[Any] = [[explore(0.5, lambda: "random", lambda: "greedy") for _ in range(9)]]
    a = torch.randn(4, 4)
    a = a @ a.T + torch.eye(4)
    solve = module("utils.conjugate_gradient").conjugate_gradient
    results += [solve(lambda v: a @ v, torch.ones(4), 1e-10, n).tolist() for n in (1, 2, 3)]
    triangles, matrix = module("functions.lower_triangular_matrix"), torch.zeros(2, 3, 3)
    triangles.set_batch_non_diagonal(matrix, torch.arange(6.0).reshape(2, 3))
    triangles.set_batch_diagonal(matrix, torch.full((2, 3), 9.0))
    noisy = module("nn.noisy_linear")
    shapes = (4,), (2, 9), (2, 4, 2, 2)
    low, high = np.float32([-1, 0]), np.float32([1, 4])
    tensors = [
        matrix,
        module("nn.concat_obs_and_action").concat_obs_and_action((torch.ones(1, 2), torch.zeros(1, 1))),
        noisy.init_lecun_uniform(torch.empty(2, 3), scale=2.0),
        *(noisy.init_variance_scaling_constant(torch.empty(shape), 3.0) for shape in shapes),
        module("q_functions.state_q_functions").scale_by_tanh(torch.tensor([[0.0, 1.0], [-2.0, 3.0]]), low, high),
    ]
    for name in ("nn.atari_cnn", "q_functions.dueling_dqn"):
        layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Conv2d(1, 1, 1), torch.nn.Conv1d(1, 1, 1))
        layers.apply(module(name).constant_bias_initializer(0.5))
        tensors += [layers[0].bias, layers[1].bias]
    return [*results, *(tensor.tolist() for tensor in tensors)]


def loops(lib: str) -> Any:
    evaluators = importlib.import_module(f"{lib}.experiments.evaluator")
    train_loop = importlib.import_module(f"{lib}.experiments.train_agent_async").train_loop
    return [
        loop(evaluators.AsyncEvaluator, train_loop, *arguments)
        for arguments in ((10, None, None, 0), (10, 2, None, 0), (99, None, 5.0, 0), (9, None, None, 5))
    ]


def loop(
    evaluator_class: Any, train_loop: Any, steps: int, longest: int | None, score: float | None, error_at: int
) -> Any:
    """Hook calls, counts, what the agent was told and saved as, and the table of scores, of one loop."""
    agent, events = Recording(), []  # type: Recording, list[Any]

    def after_evaluation(*, step: int, eval_stats: Any, **_: Any) -> None:
        events.append([step, float(eval_stats["mean"])])

    def after_step(env: Any, agent: Any, t: int) -> None:
        events.append(t)
        if t == error_at:
            raise KeyError(t)

    context = multiprocessing.get_context("fork")
    counters = context.Value("l", 0), context.Value("l", 0)
    with tempfile.TemporaryDirectory() as outdir:
        evaluator = evaluator_class(None, 2, 3, outdir, evaluation_hooks=[after_evaluation])
        try:
            train_loop(
                0, Counting(4), agent, steps, outdir, *counters, threading.Event(), threading.Event(), longest,
                evaluator, Counting(3), score, global_step_hooks=[after_step],
            )  # fmt: skip
        except KeyError:
            events.append("error")
        rows = [line.split("\t") for line in Path(outdir, "scores.txt").read_text().splitlines()]
    table = [[value for i, value in enumerate(row) if i != 2] for row in rows]  # without the elapsed time
    return [events, [counter.value for counter in counters], agent.saved, agent.observed, evaluator.max_score, table]


def buffers(lib: str) -> Any:
    """The newest transitions of two environments after each step."""
    module, results = importlib.import_module(f"{lib}.replay_buffers"), []
    steps = [(0, 0), (0, 0), (1, 0), (0, 0), (0, 0), (1, 1), (0, 0), (0, 1), (1, 0)]
    for cls in (module.ReplayBuffer, module.PrioritizedReplayBuffer):
        for num_steps in (1, 3):
            buffer = cls(4, num_steps=num_steps)
            for i, (env_id, ended) in enumerate(steps):
                obs, next_obs = np.float32([i]), np.float32([i + 1])
                buffer.append(obs, 0, float(i), next_obs, is_state_terminal=bool(ended), env_id=env_id)
                results.append([[step["reward"] for step in buffer.last_n_transitions[key]] for key in (0, 1)])
    return results


RESULTS = {each.__name__: each for each in (filters, modifiers, queues, functions, loops, buffers)}


def main(path: str) -> None:
    Path(path).write_text(json.dumps({name: function("pfrl") for name, function in RESULTS.items()}))


if __name__ == "__main__":
    main(sys.argv[1])
