"""Evaluation in an actor of its own, while training continues."""

import contextlib
import logging
import math
import os
import secrets
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]
import torch

from pfrl_like.envs.env_states import restore_between_episodes, state_between_episodes
from pfrl_like.errors import WorkerError
from pfrl_like.experiments.callbacks import statistics_of
from pfrl_like.experiments.cluster import env_actor
from pfrl_like.experiments.cluster.actors import POLL, SAVE_SECONDS, Limits, first_line
from pfrl_like.experiments.cluster.env_actor import Weights
from pfrl_like.experiments.evaluator import Evaluator, episode_statistics, run_evaluation_episodes
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.runs.loop import Terminated
from pfrl_like.utils.env_values import takes_at_reset
from pfrl_like.utils.random_seed import set_random_seed

#: Folder in the run directory with the agent of the running evaluation. It is copied to `best` after the best score.
_CANDIDATE = ".tmp-evaluated"
#: Number of times that the actor may be lost during one evaluation.
_MAX_LOSSES = 3


class EvalActor:
    """Environment and acting copy of an agent for evaluation, in a process of Ray.

    Args:
        packed: Result of `cloudpickle.dumps` for the acting copy and a function without arguments that makes the
            environment.
        seed: Seed of the environment.
    """

    def __init__(self, packed: bytes, seed: int) -> None:
        self._packed, self._seed = packed, seed

    def start(self, paths: Sequence[str]) -> dict[str, str]:
        """Make the environment and the acting copy, and return the result of `versions`.

        Args:
            paths: Folders of modules that the user imports.
        """
        torch.set_num_threads(1)
        env_actor.add_paths(paths)
        self.acting, make_env = cloudpickle.loads(self._packed)
        self.env = make_env()
        if takes_at_reset(self.env, "seed"):
            self.env.reset(seed=self._seed)
        return env_actor.versions()

    def evaluate(
        self, weights: Weights, seed: int, n_steps: int | None, n_episodes: int | None, max_episode_len: int | None
    ) -> tuple[list[float], list[float]]:
        """Return the returns and the lengths of evaluation episodes; see `run_evaluation_episodes`.

        Args:
            weights: Weights of the agent that is evaluated.
            seed: Seed of the global streams.
            n_steps: Number of steps. None if `n_episodes` is given.
            n_episodes: Number of episodes. None if `n_steps` is given.
            max_episode_len: Maximum number of steps in an episode. If None, there is no limit.
        """
        env_actor.load_weights(env_actor.acting_tensors(self.acting), weights)
        set_random_seed(seed)
        return run_evaluation_episodes(self.env, self.acting, n_steps, n_episodes, max_episode_len)

    def saved_state(self) -> dict[str, Any]:
        """Return the state of the environment as JSON values."""
        return state_between_episodes(self.env)

    def restore_state(self, state: Mapping[str, Any]) -> list[str]:
        """Restore the result of `saved_state`. Return reasons why later scores may differ."""
        try:
            restore_between_episodes(self.env, state)
        except ValueError as error:
            return [f"the evaluation environment cannot be restored: {error}"]
        return []


class EvaluatedEnv:
    """Stands in the driver for the environment of the evaluation. Its statistics are those of the training source.

    Args:
        source: The source of training steps.
    """

    def __init__(self, source: Any) -> None:
        self.source = source

    def reset(self, **_: Any) -> Any:
        """Raise an error, because the environment is in an actor.

        Raises:
            TypeError: Always.
        """
        raise TypeError("the environment of the evaluation is in an actor, and only the actor uses it")

    step = reset

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Return the statistics of the exchange with the actors."""
        return [*self.source.get_statistics().items()]


class EvaluatedAgent:
    """The agent of the version that is evaluated. It was saved when the evaluation started, and can be saved again.

    All other attributes are those of the agent, and are set there.

    Args:
        agent: The agent, which has learnt further in the meantime.
        folder: Directory in which the evaluated version was saved.
    """

    _agent: Any
    _folder: str
    _statistics: list[tuple[str, Any]]

    def __init__(self, agent: Any, folder: str) -> None:
        vars(self).update(_agent=agent, _folder=folder, _statistics=statistics_of(agent))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._agent, name, value)

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Return the statistics of the evaluated version."""
        return self._statistics

    def save(self, dirname: str) -> None:
        """Copy the saved version to `dirname`. An existing directory is replaced."""
        parent, random = os.path.dirname(dirname), secrets.token_hex(4)
        copied, removed = (os.path.join(parent, f".tmp-{word}-{os.getpid()}-{random}") for word in ("copy", "gone"))
        shutil.copytree(self._folder, copied)
        if os.path.lexists(dirname):
            os.rename(dirname, removed)
        os.rename(copied, dirname)
        shutil.rmtree(removed, ignore_errors=True)


class _Running(NamedTuple):
    """The evaluation that is running: its request, the clock when it was asked for, and the agent."""

    ref: Any
    weights: Any
    t: int
    episodes: int
    agent: EvaluatedAgent


class ActorEvaluator(Evaluator):
    """Evaluator whose episodes run in an actor, while training continues.

    The agent is saved aside when an evaluation starts. If its score is the best, this saved agent is copied to `best`.
    If an evaluation is due while another one is running, it starts when the other one has finished. The evaluations are
    awaited after the end of training.

    Args:
        agent: Agent to evaluate.
        env: Object that stands for the environment.
        n_steps: Number of steps of each evaluation. None if `n_episodes` is given.
        n_episodes: Number of episodes of each evaluation. None if `n_steps` is given.
        eval_interval: Number of training steps between evaluations.
        outdir: Run directory.
        max_episode_len: Maximum number of steps in an episode. An episode that reaches this length is truncated. If
            None, there is no limit.
        step_offset: Step at which training starts.
        evaluation_hooks: `EvaluationHook`s that are called after every evaluation.
        save_best_so_far_agent: True to save the agent as `best` whenever its mean return is the best so far.
        logger: Logger of this run. If None, the logger of `Evaluator` is used.
        use_tensorboard: True to log evaluations to TensorBoard, too.
        success_threshold: Minimum return of a successful episode. If not None, "success_rate" is added to the
            statistics.
        ray: The module `ray`, with a connection.
        packed: First argument of `EvalActor`.
        cpus: Number of CPUs that Ray reserves for the actor.
        is_exact: True to wait for the running evaluation when the next one is due, or when a checkpoint is saved. Two
            runs then have equal scores, and so has a resumed run. If False, training never waits, and a resumed run
            repeats the evaluation with its own agent.
        limits: Limits of time. `start` is that of the first process, and `replace` that of its successors.
        timeout: Seconds in which an evaluation must finish. If it takes longer, another process repeats it.
    """

    def __init__(
        self,
        agent: Any,
        env: EvaluatedEnv,
        n_steps: int | None,
        n_episodes: int | None,
        eval_interval: int,
        outdir: str | os.PathLike[str],
        max_episode_len: int | None = None,
        step_offset: int = 0,
        evaluation_hooks: Sequence[Any] = (),
        save_best_so_far_agent: bool = True,
        logger: logging.Logger | None = None,
        use_tensorboard: bool = False,
        success_threshold: float | None = None,
        *,
        ray: Any,
        packed: bytes,
        cpus: float,
        is_exact: bool,
        limits: Limits,
        timeout: float,
    ) -> None:
        super().__init__(
            agent, env, n_steps, n_episodes, eval_interval, outdir, max_episode_len, step_offset, evaluation_hooks,
            save_best_so_far_agent, logger, use_tensorboard, success_threshold=success_threshold, env_choice="an actor",
        )  # fmt: skip
        self._ray, self._packed, self._cpus, self._is_exact = ray, packed, cpus, is_exact
        self._limits, self._timeout = limits, timeout
        self._running: _Running | None = None
        self._repeated: int | None = None  # step of the evaluation that a resumed run repeats
        self._scores_left: list[tuple[dict[str, Any], float]] = []
        self._losses = 0
        self._actor = self._start(limits.start)

    def _start(self, limit: float) -> Any:
        """Start an actor, which must be scheduled and make its environment within `limit` seconds."""
        actor = self._ray.remote(EvalActor).options(num_cpus=self._cpus).remote(self._packed, self._seed)
        self._started, self._start_limit = actor.start.remote(sys.path), limit
        self._has_started, self._since = False, time.monotonic()
        return actor

    def evaluate_if_necessary(self, t: int, episodes: int) -> float | None:
        """Record an evaluation that has finished, and start an evaluation if one is due.

        An exact evaluator waits for the running evaluation when the next one is due, and looks at it only then. So the
        step at which a score arrives does not depend on time. If a signal interrupts the wait, `is_interrupted` is
        True: a resumed run repeats this call.

        Args:
            t: Number of training steps so far.
            episodes: Number of training episodes that have ended so far.

        Returns:
            The newest mean return that `take_scores` has not yet returned. None if there is none.
        """
        self.is_interrupted = False
        is_due = t >= self.prev_eval_t + self.eval_interval
        if is_due or not self._is_exact:
            self._take(waits=is_due and self._is_exact)
        if is_due and self._running is None:
            self._ask(t, episodes)
        return self._scores_left[-1][1] if self._scores_left else None

    def finish(self, t: int, episodes: int) -> None:
        """Wait for the evaluations that are running or due, because training has ended.

        Args:
            t: Number of training steps.
            episodes: Number of training episodes that have ended.
        """
        self._take(waits=True)
        if t >= self.prev_eval_t + self.eval_interval:
            self._ask(t, episodes)
            self._take(waits=True)

    def take_scores(self) -> list[tuple[dict[str, Any], float]]:
        """Return statistics and score of each evaluation that has finished since the last call, oldest first.

        The statistics are those of the agent when the evaluation started.
        """
        scores, self._scores_left = self._scores_left, []
        return scores

    def _ask(self, t: int, episodes: int) -> None:
        folder = os.path.join(self.outdir, _CANDIDATE)
        if self.save_best_so_far_agent or self.evaluation_hooks:  # a hook may save the agent
            shutil.rmtree(folder, ignore_errors=True)
            with isolated_rng():
                self.agent.save(folder)
        weights = self._ray.put(env_actor.pack_weights(env_actor.acting_tensors(self.agent)))
        self._running = _Running(self._submit(weights, t), weights, t, episodes, EvaluatedAgent(self.agent, folder))
        self.prev_eval_t = t - t % self.eval_interval

    def _submit(self, weights: Any, t: int) -> Any:
        if self._has_started:
            self._since = time.monotonic()
        limits = self.n_steps, self.n_episodes, self.max_episode_len
        return self._actor.evaluate.remote(weights, (self._seed + t) % 2**32, *limits)

    def _take(self, *, waits: bool, limit: float = math.inf) -> None:
        """Record the running evaluation if it has finished. If `waits`, wait for it, at most `limit` seconds."""
        try:
            result = self._result(time.monotonic() + limit if waits else 0.0)
        except (KeyboardInterrupt, Terminated):
            self.is_interrupted = True  # the evaluation is still running
            raise
        running = self._running
        if running is None or result is None:
            return
        self._running, self._losses = None, 0
        stats = episode_statistics(*result, self.success_threshold)
        if self._repeated is not None:  # the earlier part of the run may have finished it after its last checkpoint
            self.drop_scores(self._repeated)
            self._repeated = None
        agent, self.agent = self.agent, running.agent
        try:
            self._record(running.t, running.episodes, stats)
        finally:
            self.agent = agent
        self._scores_left.append((dict(running.agent.get_statistics()), float(stats["mean"])))

    def _result(self, deadline: float) -> tuple[list[float], list[float]] | None:
        """Return the result of the running evaluation. None if it has not finished at the time `deadline`."""
        while (running := self._running) is not None:
            seconds = min(max(0.0, deadline - time.monotonic()), POLL)
            if not self._ray.wait([running.ref], timeout=seconds)[0]:
                self._check_time(running)
                if time.monotonic() >= deadline:
                    break
                continue
            try:
                env_actor.check_versions(0, self._ray.get(self._started), "of the evaluation ")
                returns, lengths = self._ray.get(running.ref)
                return returns, lengths
            except self._ray.exceptions.RayTaskError as error:
                raise env_actor.error_of(0, "of the evaluation ", error) from None
            except self._ray.exceptions.RayError as error:
                self._replace(running, first_line(error))
        return None

    def _check_time(self, running: _Running) -> None:
        """Replace the actor if the evaluation takes too long.

        Raises:
            WorkerError: If the actor has not started in time.
        """
        seconds = time.monotonic() - self._since
        if self._has_started:
            if seconds > self._timeout:
                self._replace(running, f"it did not finish within {self._timeout:g} s, see eval_timeout")
        elif self._ray.wait([self._started], timeout=0.0)[0]:
            self._has_started, self._since = True, time.monotonic()
        elif seconds > self._start_limit:
            what = f"of the evaluation has not started within {self._start_limit:g} s"
            raise WorkerError(0, f"{what}: it needs {self._cpus:g} CPU, or make_env has not returned")

    def _replace(self, running: _Running, reason: str) -> None:
        """Start another actor after the actor was lost, and repeat the evaluation.

        Raises:
            WorkerError: If the actor was lost too often during this evaluation.
        """
        self._losses += 1
        with contextlib.suppress(Exception):  # the process may have ended
            self._ray.kill(self._actor)
        if self._losses > _MAX_LOSSES:
            raise WorkerError(0, f"of the evaluation was lost {self._losses} times during one evaluation: {reason}")
        self.logger.warning("the actor of the evaluation is lost: %s. Another process repeats the evaluation", reason)
        self._actor = self._start(self._limits.replace)
        self._running = running._replace(ref=self._submit(running.weights, running.t))

    def saved_state(self) -> dict[str, Any]:
        """Return the state that later scores depend on, except the state of the agent."""
        limit = math.inf if self._is_exact else SAVE_SECONDS
        if isinstance(sys.exc_info()[1], KeyboardInterrupt | Terminated):  # the process may soon be killed
            limit = SAVE_SECONDS
        if self._is_exact:
            self._take(waits=True, limit=limit)
        repeated = self._repeated
        if repeated is None and self._running is not None:
            repeated = self._running.t
        env = {"way": "unknown", "reason": "an evaluation was running"}
        if self._running is None:
            try:
                env = self._ray.get(self._actor.saved_state.remote(), timeout=min(limit, self._limits.answer))
            except self._ray.exceptions.RayError as error:  # the next evaluation replaces the actor
                env["reason"] = f"the state of the actor of the evaluation cannot be saved: {first_line(error)}"
        return {
            "seed": self._seed, "max_score": self.max_score, "elapsed": time.time() - self.start_time, "env": env,
            "prev_eval_t": self.prev_eval_t - self.eval_interval * (self._running is not None), "repeated": repeated,
            "scores_left": self._scores_left,
        }  # fmt: skip

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Restore the result of `saved_state`. Return reasons why later scores may differ."""
        self._scores_left = [(statistics, score) for statistics, score in state["scores_left"]]
        self._repeated = state["repeated"]
        best = self.max_score  # `best` may have been saved after the checkpoint
        reasons = [*super().restore_state({**state, "env": None})]
        self.max_score = max(best, self.max_score)
        if state["env"].get("way") == "unknown":
            return [*reasons, state["env"]["reason"]]
        ref = self._actor.restore_state.remote(state["env"])
        try:
            return [*reasons, *self._ray.get(ref, timeout=self._limits.start + self._limits.answer)]
        except self._ray.exceptions.RayError as error:  # the next evaluation raises it, or replaces the actor
            return [*reasons, f"the actor of the evaluation cannot be restored: {first_line(error)}"]

    def close(self) -> None:
        """Record the running evaluation if it has finished, end the actor and close the files."""
        with contextlib.suppress(Exception):  # the run may end because of the actor
            self._take(waits=False)
        with contextlib.suppress(Exception):
            self._ray.kill(self._actor)
        shutil.rmtree(os.path.join(self.outdir, _CANDIDATE), ignore_errors=True)
        super().close()
