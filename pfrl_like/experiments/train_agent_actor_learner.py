"""Training with actors in several processes and a learner in this one."""

import os
from collections.abc import Callable
from typing import Any

from pfrl_like.experiments.runner_arguments import check_arguments
from pfrl_like.experiments.train_agent_async import train_agent_async


def train_agent_actor_learner(
    agent: Any,
    make_env: Callable[..., Any],
    steps: int,
    outdir: str | os.PathLike[str],
    n_actors: int = 2,
    *,
    n_updates: int | None = None,
    actor_update_interval: int = 8,
    updates_per_step: float | None = None,
    **options: Any,
) -> Any:
    """Train an agent that learns from replay: actors gather steps in processes of their own, a thread here learns.

    Processes start by forkserver, or spawn: a script that calls this needs its main part under
    `if __name__ == "__main__":`, or `start_method="fork"`.

    Args:
        agent: Agent with `setup_actor_learner_training`, such as `pfrl_like.agents.DQN`. Its `target_update_interval`
            is divided by its `update_interval`, which is of no other effect here, and the target moves after so many
            updates, not steps; `n_times_update` multiplies that number.
        make_env: Called in each actor's process as (process index, test=False), and in process 0 with test=True for the
            environment to evaluate in; the name `test` is given.
        steps: Step, counted over all actors, at which training ends.
        outdir: Run directory.
        n_actors: Number of actors.
        n_updates: Updates after which training ends; None for no such end.
        actor_update_interval: Updates after which the actors' parameters are renewed.
        updates_per_step: Updates for each step; None lets actors and learner each run as fast as they can.
        **options: Further keywords of `train_agent_async`: evaluation, hooks, checkpoints, progress, start method. Its
            defaults hold: 10 episodes of evaluation every 10**6 steps, so that a shorter run has none without another
            `eval_interval`, and the best agent is saved.

    Returns:
        The agent, as it was saved last (`<t>_finish`).

    Raises:
        AsyncTrainingError: If an actor or the learner raised or died, after the agent has been saved.
    """
    check_arguments({"agent": agent}, "setup_actor_learner_training")
    make_actor, learner, poller, exception_event = agent.setup_actor_learner_training(
        n_actors,
        n_updates=n_updates,
        actor_update_interval=actor_update_interval,
        updates_per_step=updates_per_step,
    )
    poller.start()
    learner.start()
    try:
        return train_agent_async(
            outdir, n_actors, make_env, steps=steps, make_agent=make_actor, stop_event=learner.stop_event,
            exception_event=exception_event, **options,
        )  # fmt: skip
    finally:
        for thread in (poller, learner):
            thread.stop()
        for thread in (poller, learner):
            thread.join()
