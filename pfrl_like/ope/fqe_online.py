"""How fitted Q evaluation gathers data by the policy that it evaluates, and learns from it on the way."""

from typing import Any

import numpy as np
import torch

from pfrl_like.algos.epochs import evaluated, shown
from pfrl_like.env import as_gymnasium
from pfrl_like.experiments.evaluation_env import check_apart
from pfrl_like.experiments.loop import Callback, Clock, run
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.loggers.adapters import LoggerAdapterFactory, LoggingStrategy
from pfrl_like.metrics import evaluate_on_environment
from pfrl_like.metrics.environment import LastFrames
from pfrl_like.ope.fqe_fitting import Learning, Log, Metrics, StepCallback, called, logs_of
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils.action_masks import mask_columns, sample_allowed
from pfrl_like.utils.checks import check_counts, check_function

#: What a buffer that is made here holds.
_CAPACITY = 1_000_000


class Player:
    """Acts in an environment by the evaluated policy, and stores what happens; nothing is learnt.

    Args:
        fqe: What is fitted.
        action_space: Where random actions are drawn from.
        buffer: Where the steps are stored.
        explorer: Chooses the actions, given the greedy ones; None for the policy's own.
        deterministic: Whether the policy's own are the greedy ones, not samples.
        random_steps: First steps with random actions.
    """

    def __init__(
        self, fqe: Any, action_space: Any, buffer: Any, explorer: Any, deterministic: bool, random_steps: int = 0
    ) -> None:
        self.fqe, self.action_space, self.buffer, self.t = fqe, action_space, buffer, 0
        self.explorer = explorer.for_actions(action_space) if hasattr(explorer, "for_actions") else explorer
        self.choose = fqe.predict if deterministic or explorer is not None else fqe.sample_action
        self.random_steps = random_steps
        self._last: tuple[Any, Any, Any] | None = None
        self._begin()

    def _begin(self) -> None:
        self._frames = LastFrames(self.fqe.n_frames)
        self._obs: Any = None  # the last one, if the episode goes on

    def act(self, obs: Any, *, action_mask: Any = None) -> Any:
        """The next action."""
        obs = self._frames.push(obs) if self._obs is None else self._obs
        if self.t < self.random_steps:
            action = sample_allowed(self.action_space, action_mask)
        elif self.explorer is None:
            action = self._own(obs, action_mask)
        else:
            told = None if action_mask is None else Allowed(action_mask)
            action = self.explorer.select_action(self.t, lambda: self._own(obs, action_mask), told)
        self._last = obs, action, action_mask
        return action

    def observe(self, obs: Any, reward: float, done: bool, reset: bool, *, action_mask: Any = None) -> None:
        """Store what the last action led to."""
        assert self._last is not None
        state, action, mask = self._last
        self._obs = self._frames.push(obs)
        masks = {name: [each] for name, each in mask_columns(mask, action_mask, self._obs).items()}
        self.buffer.append_batch([state], [action], [reward], [self._obs], [done], [reset], **masks)
        self.t += 1
        if done or reset:
            self._begin()

    def _own(self, obs: Any, action_mask: Any) -> Any:
        action = self.choose(np.asarray(obs)[None], action_mask=action_mask)[0]
        return action.item() if np.ndim(action) == 0 else action


class Allowed:
    """What explorers are told of the values of actions: which ones may be chosen.

    Args:
        action_mask: True where an action is allowed, [n_actions].
    """

    def __init__(self, action_mask: Any) -> None:
        self.action_mask = torch.as_tensor(np.asarray(action_mask, np.bool_)[None])


class OnlineFQE:
    """The data that fitted Q evaluation gathers in environments."""

    def collect(
        self,
        env: Any,
        buffer: Any = None,
        explorer: Any = None,
        deterministic: bool = False,
        n_steps: int = 1000000,
        show_progress: bool = True,
    ) -> Any:
        """Gather data by the evaluated policy.

        Args:
            env: The environment.
            buffer: Replay buffer; None makes one.
            explorer: One of the library's, or of `pfrl_like.online`; None for none.
            deterministic: Whether actions are greedy, not samples of the policy.
            n_steps: Steps.
            show_progress: Whether progress is shown.

        Returns:
            The buffer.

        Raises:
            ValueError: On numbers that cannot be.
            TypeError: If the environment has other actions.
        """
        check_counts(n_steps=n_steps)
        fqe: Any = self
        fqe.build_with_env(env)
        buffer = ReplayBuffer(_CAPACITY) if buffer is None else buffer
        player = Player(fqe, as_gymnasium(env).action_space, buffer, explorer, deterministic)
        clock = Clock(n_steps)
        with shown(clock, show_progress) as bar:
            run(SerialSource(player, env, cuts_off_at_end=True), clock, bar)
        return buffer

    def fit_online(
        self,
        env: Any,
        buffer: Any = None,
        explorer: Any = None,
        n_steps: int = 1000000,
        n_steps_per_epoch: int = 10000,
        update_interval: int = 1,
        n_updates: int = 1,
        update_start_step: int = 0,
        random_steps: int = 0,
        eval_env: Any = None,
        eval_epsilon: float = 0.0,
        save_interval: int = 1,
        experiment_name: str | None = None,
        with_timestamp: bool = True,
        logging_steps: int = 500,
        logging_strategy: LoggingStrategy = LoggingStrategy.EPOCH,
        logger_adapter: LoggerAdapterFactory | None = None,
        show_progress: bool = True,
        callback: StepCallback | None = None,
    ) -> None:
        """Learn while the evaluated policy acts.

        Args:
            env: The environment.
            buffer: Replay buffer; None makes one.
            explorer: As in `collect`.
            n_steps: Steps.
            n_steps_per_epoch: Steps of an epoch; the last one has what is left.
            update_interval: Steps between updates.
            n_updates: Updates at a time.
            update_start_step: As of the `fit_online` of estimators.
            random_steps: First steps, whose actions are drawn uniformly from the allowed ones.
            eval_env: Environment in which the policy is evaluated after every epoch, another one than `env`; None for
                no evaluation.
            eval_epsilon: Probability of a random action there.
            save_interval: Epochs between saved models.
            experiment_name: Name in the logs; None for that of the class with "_online".
            with_timestamp: Whether the time is appended to it.
            logging_steps: Steps between metrics, with `LoggingStrategy.STEPS`.
            logging_strategy: When metrics are logged.
            logger_adapter: Makes what they are logged by; None for a `FileAdapterFactory`.
            show_progress: Whether the progress of each epoch is shown.
            callback: Called as (fqe, epoch, steps so far) after every epoch.

        Raises:
            ValueError: On numbers that cannot be, or an `eval_env` that is `env`.
            TypeError: If the environment has other actions.
            NonFiniteError: If a loss is NaN or infinite.
        """
        check_counts(
            n_steps=n_steps, n_steps_per_epoch=n_steps_per_epoch, update_interval=update_interval, n_updates=n_updates,
            save_interval=save_interval,
        )  # fmt: skip
        check_counts(least=0, update_start_step=update_start_step, random_steps=random_steps)
        check_function(optional=True, callback=callback)
        check_apart(env, eval_env)
        fqe: Any = self
        fqe.build_with_env(env)
        buffer = ReplayBuffer(_CAPACITY) if buffer is None else buffer
        scorer = {} if eval_env is None else {"evaluation": evaluate_on_environment(eval_env, epsilon=eval_epsilon)}
        player = Player(fqe, as_gymnasium(env).action_space, buffer, explorer, False, random_steps)
        source, learning, returns = SerialSource(player, env), Learning(fqe), Returns()
        logs = logs_of(fqe, experiment_name, with_timestamp, logger_adapter, n_steps_per_epoch, "_online")
        updates = updates_from(learning, buffer, update_interval, n_updates, update_start_step)
        with Log(fqe, learning, logs, logging_strategy, logging_steps) as log:
            for epoch, start in enumerate(range(0, n_steps, n_steps_per_epoch), 1):
                clock = Clock(min(start + n_steps_per_epoch, n_steps), start)
                with shown(clock, show_progress) as bar:
                    run(source, clock, [updates, returns, log.step(epoch), *bar])
                if epoch % save_interval == 0:
                    log.save(epoch)
                scores = {**returns.mean(), **evaluated(fqe, scorer, None)}
                log.end_of_epoch(epoch, clock.t, scores)
                called(callback, fqe, epoch)(clock)


class Returns:
    """The returns of the episodes that ended in an epoch."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def __call__(self, clock: Clock) -> None:
        self.found += [episode.total_reward for episode in clock.ended]

    def mean(self) -> Metrics:
        """Their mean as a metric, none if no episode ended; begins anew."""
        found, self.found = self.found, []
        return {"rollout_return": float(np.mean(found))} if found else {}


def updates_from(learning: Learning, buffer: Any, interval: int, n_updates: int, start: int) -> Callback:
    """Makes updates from a buffer whenever they are due."""
    fqe = learning.fqe

    def update(clock: Clock) -> None:
        if clock.t <= start or clock.t % interval or len(buffer) < fqe.batch_size:
            return
        for _ in range(n_updates):
            batch = buffer.sample_batch(fqe.batch_size, learning.gamma, learning.device, **learning.sampling)
            td_error, _ = learning.update(batch)
            if batch.weight is not None:
                buffer.update_priorities(batch.index, td_error)

    return update
