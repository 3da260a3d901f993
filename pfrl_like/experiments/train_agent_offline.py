"""Training from recorded data; an environment is only needed for evaluation."""

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
_OF_UPDATES = (
    "; agents that learn from datasets are those with a replay buffer, such as DQN and SoftActorCritic, and those of "
    "pfrl_like.agents.offline"
)
_OF_EPISODES = "; MDPDataset.from_episodes makes a dataset of a list of episodes"


def _check_options(dataset: Any, sample: str, *given: Any, **options: Any) -> None:
    """Refuse arguments that the method which samples minibatches does not accept."""
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
            learn from sequences, an episodic replay buffer or anything else with `sample_sequences(n, max_len, gamma,
            device)`.
        minibatch_size: Items of a minibatch; None takes the agent's `minibatch_size`.
        options: Further arguments of `sample_batch`, besides those that the agent needs (`agent.sampling`).
    """

    def __init__(self, agent: Any, dataset: Any, minibatch_size: int | None = None, **options: Any) -> None:
        self.of_sequences = getattr(agent, "learns_from_sequences", False)
        self._sample = "sample_sequences" if self.of_sequences else "sample_batch"
        check_has("agent", agent, "update", "gamma", "device", way_out=_OF_ESTIMATOR if hasattr(agent, "impl") else "")
        check_has("dataset", dataset, self._sample, way_out=_OF_EPISODES if isinstance(dataset, list) else "")
        if minibatch_size is None:
            check_has("agent", agent, "minibatch_size", way_out=_OF_UPDATES)
        self.agent, self.dataset = agent, dataset
        self.minibatch_size = agent.minibatch_size if minibatch_size is None else minibatch_size
        check_counts(minibatch_size=self.minibatch_size)
        self.last: Any = None  # minibatch: observations, actions, rewards
        self.options = {**getattr(agent, "sampling", {}), **options}
        _check_options(dataset, self._sample, *self._wanted, **self.options)
        self._check_size()

    @property
    def _wanted(self) -> tuple[Any, ...]:
        """The positional arguments with which minibatches are sampled."""
        lengths = [self.agent.sequence_length] if self.of_sequences else []
        return self.minibatch_size, *lengths, self.agent.gamma, self.agent.device

    def _check_size(self) -> None:
        """Refuse minibatches larger than the dataset, if the dataset has a size."""
        what, held = "transitions", getattr(self.dataset, "n_steps", None)
        if hasattr(self.dataset, "stored_steps"):  # a replay buffer
            held = len(self.dataset)
        if self.of_sequences and hasattr(self.dataset, "n_episodes"):
            what, held = "episodes", self.dataset.n_episodes
        if held is not None and held < self.minibatch_size:
            raise ValueError(f"minibatch_size: got {self.minibatch_size}, but the dataset holds {held} {what}")

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """Make one update."""
        batch = getattr(self.dataset, self._sample)(*self._wanted, **self.options)
        td_error, _ = self.agent.update(batch)
        self.last = batch.obs, batch.action, batch.reward
        if batch.weight is not None:
            self.dataset.update_priorities(batch.index, td_error)
        clock.t += 1
        clock.between_episodes = True
        return ()

    def record(self) -> None:
        """Do nothing; `saved_state` needs no recording."""

    @property
    def draws_from(self) -> tuple[Any, ...]:
        """The objects whose random streams choose the minibatches."""
        return self.dataset, self.options

    def saved_state(self) -> dict[str, Any]:
        """The dataset's own state, or numbers that identify it; the run saves replay buffers completely."""
        return {"data": state_of_data(self.dataset)}

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Let the dataset restore its part of `saved_state`, or compare the dataset with it.

        Returns:
            The differences; empty if there are none.

        Raises:
            KeyError, TypeError, ValueError: If the state belongs to something else.
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

    Afterwards any other runner can continue to train the agent in an environment.

    Args:
        agent: Anything with `update`, `gamma`, `device`, `save` and `get_statistics`.
        dataset: An `MDPDataset`, or a replay buffer; `MDPDataset.from_episodes` makes a dataset of a list of episodes.
        steps: Number of updates at which training ends.
        outdir: Run directory; made if it is missing.
        checkpoint_freq: Updates between checkpoints `<t>_checkpoint`, which hold everything that `resume` needs; the
            content of replay buffers is in `checkpoint_buffers/`. None for none.
        step_offset: Number of updates at which training starts, at most `steps`. Above 0 the run in `outdir` resumes:
            its time continues, and everything beyond this step is moved to `outdir/beyond-...`. At 0 everything that an
            earlier run left is moved to `outdir/earlier-...`.
        eval_env: Environment to evaluate in; None for no evaluation.
        eval_n_steps: Steps of each evaluation; None if `eval_n_episodes` is given.
        eval_n_episodes: Episodes of each evaluation; None if `eval_n_steps` is given.
        eval_interval: Updates between evaluations.
        eval_max_episode_len: Steps after which an evaluation episode is cut off; None for no limit.
        successful_score: Training ends once the mean return of an evaluation reaches this value; None disables this.
        step_hooks: Called as (eval_env, agent, t) after every update.
        evaluation_hooks: `EvaluationHook`s, called after every evaluation.
        save_best_so_far_agent: Whether to save the agent as `best` whenever its mean return is the best so far.
        use_tensorboard: Whether to log evaluations, and the rows of `metrics.csv`, to TensorBoard, too.
        minibatch_size: Items of a minibatch; None takes the agent's `minibatch_size`.
        log_interval: Updates between rows of `metrics.csv`.
        logger: Logger of this run.
        progress: Whether to show progress; None shows it on a terminal.
        hooks: Called with the `Clock` of the loop after every update, after logging and evaluation; `clock.stop()` ends
            training. If a hook has a method `close`, that is called at the end. Hooks and loggers with `saved_state()`
            and `restore_state(state)`, or with `state_dict()` and `load_state_dict(state)`, are restored by `resume`.
        loggers: Further loggers of the metrics, besides the CSV file; closed at the end.
        resume: Whether to resume from the newest complete checkpoint in `outdir`, as if the run had not stopped; a new
            run starts if nothing was saved there. Agent, environment and all other parts have to be constructed as
            before. Everything beyond the checkpoint is moved aside. If later steps may differ from those of an
            uninterrupted run, the log gives the reasons.
        keep_checkpoints: Number of checkpoints to keep, besides `best`; a run can resume from each of them. None keeps
            all agents, and the complete state of the newest two checkpoints.
        on_checkpoint_failure: "raise" if a checkpoint, table or trace that cannot be written ends training; "warn" if
            the failure is logged, once per file, and training continues, while rows wait in memory for space. Earlier
            checkpoints stay in both cases. A file that cannot be created is an error in any case. Failures of `run.log`
            and of the report never end training.
        sampling: Further arguments of `dataset.sample_batch`: `num_steps`, `n_frames`, `rng`.

    Returns:
        The agent, and its statistics and "eval_score" at every evaluation.

    Raises:
        NonFiniteError: On NaN or infinity in a loss or a gradient.
        ValueError: If a number is out of range, if only one of `eval_env` and `eval_interval` is given, if a minibatch
            is larger than the dataset, or if the observations or actions of the agent and the dataset differ.
        TypeError: If `agent` or `dataset` lacks a required method, if the dataset has actions of the other kind, if
            `sample_batch` does not accept an argument, or if `rng` is not a NumPy generator.
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
