"""Training from recorded data. Only evaluation needs an environment."""

import inspect
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pfrl_like.dataset import MDPDataset
from pfrl_like.distributed.learner_group import priorities, sample_share
from pfrl_like.envs.make_env import accept_env_ids
from pfrl_like.experiments.callbacks import statistics_of
from pfrl_like.experiments.evaluator import evaluating
from pfrl_like.experiments.runner_arguments import arguments_for, check_arguments, check_has
from pfrl_like.experiments.train_agent import StepHookLike, check_hooks
from pfrl_like.experiments.training import train
from pfrl_like.loggers import MetricsLogger
from pfrl_like.runs.checksums import restore_data, state_of_data
from pfrl_like.runs.loop import Callback, Clock, Episode
from pfrl_like.utils.checks import check_counts, takes_integral_floats
from pfrl_like.utils.random import check_rng

_LOGGER = logging.getLogger(__name__)

_ESTIMATOR_HINT = "; pass the attribute `impl` of the estimator, which is its agent"
_AGENT_HINT = "; use an agent with a replay buffer, such as DQN, or an agent of pfrl_like.agents.offline"
_EPISODES_HINT = "; MDPDataset.from_episodes converts a list of episodes into a dataset"


def _check_options(dataset: Any, sample: str, *arguments: Any, **options: Any) -> None:
    """Check that the method that samples minibatches accepts the arguments."""
    signature = inspect.signature(getattr(dataset, sample))
    try:
        signature.bind(*arguments, **options)
    except TypeError as error:
        names, others = (", ".join(each.parameters) for each in (signature, inspect.signature(train_agent_offline)))
        text = f"{sample} of {type(dataset).__name__}: {error}; it accepts {names}"
        raise TypeError(f"{text}. train_agent_offline itself accepts {others}") from error


class DatasetSource:
    """Source of training steps that updates an agent from recorded data. Every update is one step of the clock.

    Args:
        agent: Object with the method `update(batch)` and the attributes `gamma` and `device`.
        dataset: Object with the method `sample_batch(n, gamma, device)`: an `MDPDataset`, or a replay buffer. For
            agents that learn from sequences, an object with the method `sample_sequences(n, max_len, gamma, device)`,
            such as an episodic replay buffer.
        minibatch_size: Number of transitions, or sequences, in a minibatch. If None, the agent's `minibatch_size` is
            used.
        options: Additional arguments of the method that samples minibatches. The arguments in `agent.sampling` are
            added.
    """

    def __init__(self, agent: Any, dataset: Any, minibatch_size: int | None = None, **options: Any) -> None:
        self.samples_sequences = getattr(agent, "learns_from_sequences", False)
        self._sample = "sample_sequences" if self.samples_sequences else "sample_batch"
        check_has("agent", agent, "update", "gamma", "device", hint=_ESTIMATOR_HINT if hasattr(agent, "impl") else "")
        check_has("dataset", dataset, self._sample, hint=_EPISODES_HINT if isinstance(dataset, list) else "")
        if minibatch_size is None:
            check_has("agent", agent, "minibatch_size", hint=_AGENT_HINT)
        self.agent, self.dataset = agent, dataset
        self.minibatch_size = agent.minibatch_size if minibatch_size is None else minibatch_size
        check_counts(minibatch_size=self.minibatch_size)
        self.last: Any = None  # minibatch: observations, actions, rewards
        self.options = {**getattr(agent, "sampling", {}), **options}
        _check_options(dataset, self._sample, *self._sample_arguments, **self.options)
        unit, size = "transitions", getattr(self.dataset, "n_steps", None)
        if hasattr(self.dataset, "stored_steps"):  # a replay buffer
            size = len(self.dataset)
        if self.samples_sequences and hasattr(self.dataset, "n_episodes"):
            unit, size = "episodes", self.dataset.n_episodes
        if size is not None and size < self.minibatch_size:
            raise ValueError(f"minibatch_size: got {self.minibatch_size}, but the dataset has {size} {unit}")

    @property
    def _sample_arguments(self) -> tuple[Any, ...]:
        """Positional arguments of the method that samples minibatches."""
        lengths = [self.agent.sequence_length] if self.samples_sequences else []
        return self.minibatch_size, *lengths, self.agent.gamma, self.agent.device

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """Make one update."""
        sample, (n, *arguments) = getattr(self.dataset, self._sample), self._sample_arguments
        group = None if self.samples_sequences else getattr(self.agent, "learner_group", None)
        batch = sample_share(group, lambda n: sample(n, *arguments, **self.options), n)
        td_error, _ = self.agent.update(batch)
        self.last = batch.obs, batch.action, batch.reward
        if batch.weight is not None:
            self.dataset.update_priorities(*priorities(group, batch, td_error))
        clock.t += 1
        clock.between_episodes = True
        return ()

    def record(self) -> None:
        """Do nothing. Sources with an environment record episodes here, but a dataset needs no recording."""

    @property
    def draws_from(self) -> tuple[Any, ...]:
        """Objects whose random generators choose the minibatches."""
        return self.dataset, self.options

    def saved_state(self) -> dict[str, Any]:
        """Return the state of the dataset, see `state_of_data`. Replay buffers are saved separately by the run."""
        return {"data": state_of_data(self.dataset)}

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Restore the state of the dataset. If it has no `saved_state`, compare it with the saved sizes and checksum.

        Returns:
            A list of differences between the dataset and the saved dataset; empty if there are no differences.

        Raises:
            KeyError, TypeError, ValueError: If `state` is not a saved state, or if `restore_state` of the dataset
                rejects it.
        """
        return restore_data(self.dataset, state["data"])


class UpdateLog:
    """Sends the agent's statistics to the loggers every `interval` updates."""

    def __init__(self, agent: Any, loggers: Sequence[MetricsLogger], interval: int) -> None:
        self.agent, self.loggers, self.interval = agent, loggers, interval

    def __call__(self, clock: Clock) -> None:
        if clock.t % self.interval == 0:
            metrics = dict(statistics_of(self.agent))
            for logger in self.loggers:
                logger.log(clock.t, metrics)


@accept_env_ids("eval_env")
@takes_integral_floats
def train_agent_offline(
    agent: Any,
    dataset: Any,
    steps: int,
    outdir: str | os.PathLike[str],
    checkpoint_freq: int | None = None,
    step_offset: int = 0,
    *,
    eval_env: Any = None,
    eval_n_steps: int | None = None,
    eval_n_episodes: int | None = None,
    eval_interval: int | None = None,
    eval_max_episode_len: int | None = None,
    successful_score: float | None = None,
    step_hooks: Sequence[StepHookLike] = (),
    evaluation_hooks: Sequence[Any] = (),
    save_best_so_far_agent: bool = True,
    use_tensorboard: bool = False,
    minibatch_size: int | None = None,
    log_interval: int = 1000,
    logger: logging.Logger | None = None,
    progress: bool | None = None,
    hooks: Sequence[Callback] = (),
    loggers: Sequence[MetricsLogger] = (),
    resume: bool = False,
    keep_checkpoints: int | None = None,
    on_checkpoint_failure: Literal["raise", "warn"] = "raise",
    **sampling: Any,
) -> tuple[Any, list[dict[str, Any]]]:
    """Train an agent from recorded data. The run directory contains the same files as after `train_agent`.

    After offline training, any other runner can continue to train the agent in an environment.

    Args:
        agent: Object with the methods `update`, `save` and `get_statistics` and the attributes `gamma` and `device`.
        dataset: An `MDPDataset` or a replay buffer. `MDPDataset.from_episodes` converts a list of episodes into a
            dataset.
        steps: Number of updates at which training ends.
        outdir: Run directory, or its URL on a storage that fsspec knows, such as "s3://bucket/run" (extra `hub`). It is
            created if it does not exist.
        checkpoint_freq: Number of updates between checkpoints `<t>_checkpoint`. A checkpoint contains everything that
            `resume` needs, except the contents of replay buffers. These are in the folder `checkpoint_buffers/`. If
            None, no checkpoints are saved.
        step_offset: Number of updates at which training starts, at most `steps`. If positive, the run in `outdir`
            resumes: the elapsed time continues, and everything that belongs to later updates is moved to
            `outdir/beyond-...`. If 0, everything that an earlier run wrote is moved to `outdir/earlier-...`.
        eval_env: Environment for evaluation, or its id. If None, there are no evaluations.
        eval_n_steps: Number of steps of each evaluation. None if `eval_n_episodes` is given.
        eval_n_episodes: Number of episodes of each evaluation. None if `eval_n_steps` is given.
        eval_interval: Number of updates between evaluations.
        eval_max_episode_len: Maximum number of steps in an evaluation episode. An episode that reaches this length is
            truncated. If None, there is no limit.
        successful_score: Training ends when the mean return of an evaluation reaches this value. If None, this
            condition is disabled.
        step_hooks: Functions that are called as `hook(eval_env, agent, t)` after every update.
        evaluation_hooks: `EvaluationHook`s that are called after every evaluation.
        save_best_so_far_agent: True to save the agent as `best` whenever its mean return is the best so far.
        use_tensorboard: True to log evaluations and the rows of `metrics.csv` to TensorBoard, too.
        minibatch_size: Number of transitions, or sequences, in a minibatch. If None, the agent's `minibatch_size` is
            used.
        log_interval: Number of updates between rows of `metrics.csv`.
        logger: Logger of this run. If None, the logger of this module is used.
        progress: True to show a progress bar. If None, the bar is shown only on a terminal.
        hooks: Functions that are called with the `Clock` after every update, after logging and evaluation.
            `clock.stop()` ends training. If a hook has a method `close`, the runner calls `close` at the end. `resume`
            restores the hooks and loggers that have `saved_state()` and `restore_state(state)`, or `state_dict()` and
            `load_state_dict(state)`.
        loggers: Loggers that get the metrics in addition to the CSV file. The runner closes them at the end.
        resume: True to resume from the newest complete checkpoint in `outdir`. The run then continues as if it had not
            stopped. If `outdir` contains no checkpoint or agent, a new run starts. All objects must be constructed in
            the same way as in the saved run. Everything that belongs to steps after the checkpoint is moved to
            `outdir/beyond-...`. If later steps may differ from the steps of an uninterrupted run, the reasons are
            logged.
        keep_checkpoints: Number of checkpoints to keep, in addition to `best`. A run can resume from each of them. If
            None, the agents of all checkpoints are kept, and a run can resume from the newest two.
        on_checkpoint_failure: "raise": a failed write of a checkpoint, table or trace ends training. "warn": the first
            failed write of each file is logged, training continues, and unwritten rows stay in memory until the disk
            has space. Earlier checkpoints are always kept. A file that cannot be created always raises an error. Failed
            writes of `run.log` and of the report never end training.
        sampling: Additional arguments of `dataset.sample_batch`: `num_steps`, `n_frames`, `rng`.

    Returns:
        The agent, and a list with one dict for each evaluation: the agent's statistics and "eval_score".

    Raises:
        NonFiniteError: If a loss or a gradient is NaN or infinite.
        ValueError: If a number is out of range, if only one of `eval_env` and `eval_interval` is given, if a minibatch
            is larger than the dataset, or if the agent and the dataset have different observations or actions.
        TypeError: If `agent` or `dataset` lacks a required method, if the actions of the dataset are continuous and the
            agent's are discrete or vice versa, if `sample_batch` does not accept an argument, or if `rng` is not a
            NumPy generator.
        RuntimeError: If a network or function of the agent does not accept the shape of the observations or actions.
    """
    if (eval_env is None) != (eval_interval is None):
        raise ValueError(f"eval_env and eval_interval: expected both or neither, got {eval_env} and {eval_interval}")
    logger = logger or _LOGGER
    arguments = check_arguments(locals())
    check_counts(log_interval=log_interval)
    check_hooks(evaluation_hooks, "support_train_agent", "train_agent_offline")
    source = DatasetSource(agent, dataset, minibatch_size, **sampling)
    if isinstance(dataset, MDPDataset):
        check_rng(sampling.get("rng"))
        if hasattr(agent, "check_dataset"):
            agent.check_dataset(dataset, sampling.get("n_frames", 1))
    with evaluating(arguments, eval_env) as make_evaluator:
        history = train(
            **arguments_for(train, arguments),
            env=eval_env,
            source=source,
            make_logs=lambda all_loggers, _: [UpdateLog(agent, all_loggers, log_interval)],
            evaluator=None if eval_interval is None else make_evaluator,
            eval_during_episode=True,
        )
    return agent, history
