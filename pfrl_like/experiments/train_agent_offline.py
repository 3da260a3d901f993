"""Training from recorded data, without an environment but to evaluate in."""

import inspect
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pfrl_like.dataset import MDPDataset
from pfrl_like.experiments.callbacks import statistics_of
from pfrl_like.experiments.evaluator import evaluating
from pfrl_like.experiments.runner_arguments import check_arguments, check_has, handed_on
from pfrl_like.experiments.train_agent import StepHookLike, check_hooks
from pfrl_like.experiments.training import train
from pfrl_like.loggers import MetricsLogger
from pfrl_like.runs.checksums import restore_data, state_of_data
from pfrl_like.runs.loop import Callback, Clock, Episode
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.random import check_rng

_LOGGER = logging.getLogger(__name__)

_OF_ESTIMATOR = "; the agent of an estimator is its `impl`, which `fit` trains"
_OF_EPISODES = "; MDPDataset.from_episodes makes a dataset of a list of episodes"


def _check_options(dataset: Any, sample: str, *given: Any, **options: Any) -> None:
    """Refuse what the method that draws minibatches cannot be called with."""
    signature = inspect.signature(getattr(dataset, sample))
    try:
        signature.bind(*given, **options)
    except TypeError as error:
        names, own = (", ".join(each.parameters) for each in (signature, inspect.signature(train_agent_offline)))
        raise TypeError(
            f"{sample} of {type(dataset).__name__}: {error}; it takes {names}. train_agent_offline itself takes {own}"
        ) from error


class DatasetSource:
    """An agent that updates from recorded data; every update is a step of the clock.

    Args:
        agent: Anything with `update(batch)`, `gamma` and `device`.
        dataset: Anything with `sample_batch(n, gamma, device)`: an `MDPDataset`, or a replay buffer. For agents that
            learn from sequences with `sample_sequences(n, max_len, gamma, device)`: an episodic one.
        minibatch_size: Items of a minibatch; None takes the agent's.
        options: Further arguments of `sample_batch`, beside those that the agent needs (`agent.sampling`).
    """

    def __init__(self, agent: Any, dataset: Any, minibatch_size: int | None = None, **options: Any) -> None:
        self.of_sequences = getattr(agent, "learns_from_sequences", False)
        self._sample = "sample_sequences" if self.of_sequences else "sample_batch"
        check_has("agent", agent, "update", "gamma", "device", way_out=_OF_ESTIMATOR if hasattr(agent, "impl") else "")
        check_has("dataset", dataset, self._sample, way_out=_OF_EPISODES if isinstance(dataset, list) else "")
        self.agent, self.dataset = agent, dataset
        self.minibatch_size = agent.minibatch_size if minibatch_size is None else minibatch_size
        check_counts(minibatch_size=self.minibatch_size)
        self.last: Any = None  # minibatch: observations, actions, rewards
        self.options = {**getattr(agent, "sampling", {}), **options}
        _check_options(dataset, self._sample, *self._wanted, **self.options)
        self._check_size()

    @property
    def _wanted(self) -> tuple[Any, ...]:
        """What minibatches are drawn by, beside the options."""
        lengths = [self.agent.sequence_length] if self.of_sequences else []
        return self.minibatch_size, *lengths, self.agent.gamma, self.agent.device

    def _check_size(self) -> None:
        """Refuse minibatches that are larger than the data, if these tell how many they are."""
        what, held = "transitions", getattr(self.dataset, "n_steps", None)
        if hasattr(self.dataset, "stored_steps"):  # a replay buffer
            held = len(self.dataset)
        if self.of_sequences and hasattr(self.dataset, "n_episodes"):
            what, held = "episodes", self.dataset.n_episodes
        if held is not None and held < self.minibatch_size:
            raise ValueError(f"minibatch_size: got {self.minibatch_size}, but the dataset holds {held} {what}")

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """One update."""
        batch = getattr(self.dataset, self._sample)(*self._wanted, **self.options)
        td_error, _ = self.agent.update(batch)
        self.last = batch.obs, batch.action, batch.reward
        if batch.weight is not None:
            self.dataset.update_priorities(batch.index, td_error)
        clock.t += 1
        clock.between_episodes = True
        return ()

    def record(self) -> None:
        """Nothing has to be recorded for `saved_state`."""

    @property
    def draws_from(self) -> tuple[Any, ...]:
        """Objects by whose random streams minibatches are drawn."""
        return self.dataset, self.options

    def saved_state(self) -> dict[str, Any]:
        """What the dataset says, or what tells it from others; replay buffers are saved whole, by the run."""
        return {"data": state_of_data(self.dataset)}

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Let the dataset take up what `saved_state` told of it, or compare it with that.

        Returns:
            How it differs; nothing if it does not.

        Raises:
            KeyError, TypeError, ValueError: If it comes from something else.
        """
        return restore_data(self.dataset, state["data"])


class UpdateLog:
    """Writes the agent's statistics to the loggers every `interval` updates."""

    def __init__(self, agent: Any, loggers: Sequence[MetricsLogger], interval: int) -> None:
        self.agent, self.loggers, self.interval = agent, loggers, interval

    def __call__(self, clock: Clock) -> None:
        if clock.t % self.interval == 0:
            metrics = dict(statistics_of(self.agent))
            for logger in self.loggers:
                logger.log(clock.t, metrics)


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
    """Train an agent from recorded data; the run directory is that of `train_agent`.

    The agent can go on in an environment afterwards, with any other runner.

    Args:
        agent: Anything with `update`, `gamma`, `device`, `save` and `get_statistics`.
        dataset: An `MDPDataset`, or a replay buffer; `MDPDataset.from_episodes` makes one of a list of episodes.
        steps: Number of updates at which training ends.
        outdir: Run directory; made if it is missing.
        checkpoint_freq: Updates between checkpoints `<t>_checkpoint`; None for none.
        step_offset: Number of updates at which training starts; see `train_agent`.
        eval_env: Environment to evaluate in; None for no evaluation.
        eval_n_steps: Steps of each evaluation; None if `eval_n_episodes` is given.
        eval_n_episodes: Episodes of each evaluation; None if `eval_n_steps` is given.
        eval_interval: Updates between evaluations.
        eval_max_episode_len: Steps after which an evaluation episode is cut off.
        successful_score: Mean return in evaluation that ends training.
        step_hooks: Called as (eval_env, agent, t) after every update.
        evaluation_hooks: `EvaluationHook`s, called after every evaluation.
        save_best_so_far_agent: Whether to save the agent as `best` whenever the score is the best so far.
        use_tensorboard: Whether to log evaluations, and what `metrics.csv` gets, to TensorBoard, too.
        minibatch_size: Items of a minibatch; None takes the agent's.
        log_interval: Updates between lines of `metrics.csv`.
        logger: Logger of this run.
        progress: Whether to show progress; None shows it on a terminal.
        hooks: Called with the `Clock` of the loop after every update.
        loggers: Further loggers of the metrics; closed at the end.
        resume: Whether to go on from the newest checkpoint in `outdir`; see `train_agent`.
        keep_checkpoints: Checkpoints that stay; see `train_agent`.
        on_checkpoint_failure: Whether a checkpoint that cannot be written ends training; see `train_agent`.
        sampling: Further arguments of `dataset.sample_batch`: `num_steps`, `n_frames`, `rng`.

    Returns:
        The agent, and its statistics and "eval_score" at every evaluation.

    Raises:
        NonFiniteError: On NaN or infinity in a loss or a gradient.
        ValueError: On numbers out of range, if `eval_env` and `eval_interval` are not given together, if a minibatch is
            larger than the dataset, or if the agent has other observations or actions than it.
        TypeError: If the agent, or the dataset, is none, or has actions of the other kind, or on an argument that
            `sample_batch` has not, or an `rng` that is no generator of NumPy.
        RuntimeError: If observations or actions do not fit a part of the agent.
    """
    if (eval_env is None) != (eval_interval is None):
        raise ValueError(f"eval_env and eval_interval: expected both or neither, got {eval_env} and {eval_interval}")
    logger = logger or _LOGGER
    given = check_arguments(locals())
    check_counts(log_interval=log_interval)
    check_hooks(evaluation_hooks, "support_train_agent", "train_agent_offline")
    source = DatasetSource(agent, dataset, minibatch_size, **sampling)
    if isinstance(dataset, MDPDataset):
        check_rng(sampling.get("rng"))
        if hasattr(agent, "check_dataset"):
            agent.check_dataset(dataset, sampling.get("n_frames", 1))
    with evaluating(given, eval_env) as make_evaluator:
        history = train(
            **handed_on(train, given),
            env=eval_env,
            source=source,
            make_logs=lambda sinks, _: [UpdateLog(agent, sinks, log_interval)],
            evaluator=None if eval_interval is None else make_evaluator,
            eval_during_episode=True,
        )
    return agent, history
