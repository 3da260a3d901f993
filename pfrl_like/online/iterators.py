"""`train`, online training that takes the algorithm as an argument."""

from typing import Any


def train(
    env: Any,
    algo: Any,
    buffer: Any,
    explorer: Any = None,
    n_epochs: int = 1000,
    n_steps_per_epoch: int = 4000,
    n_updates_per_epoch: int = 100,
    update_start_step: int = 0,
    eval_env: Any = None,
    eval_epsilon: float = 0.05,
    eval_interval: int = 1,
    save_metrics: bool = True,
    experiment_name: str | None = None,
    with_timestamp: bool = True,
    logdir: str = "d3rlpy_logs",
    verbose: bool = True,
    show_progress: bool = True,
    tensorboard: bool = True,
    save_interval: int = 1,
) -> None:
    """Call `algo.fit_online` with these arguments; the default of `eval_epsilon` is 0.05 here.

    Args:
        env: An environment that `pfrl_like.env.as_gymnasium` accepts.
        algo: The algorithm.
        buffer: Replay buffer of transitions, with unstacked observations: one of `pfrl_like.replay_buffers` or
            `pfrl_like.online.buffers`; None makes one of a million steps.
        explorer: Chooses the actions: one of `pfrl_like.explorers` or `pfrl_like.online.explorers`; None leaves
            them to the policy, which explores only if it is stochastic.
        n_epochs: Number of epochs; each collects steps, and then learns from them.
        n_steps_per_epoch: Steps per epoch.
        n_updates_per_epoch: Updates at the end of an epoch.
        update_start_step: Steps before the first update, which may follow the next step. There is no update while
            the buffer holds fewer than `batch_size` steps; an epoch without updates for that reason prints no
            losses, and a warning says so, once a process.
        eval_env: Environment of evaluations, another one than `env`; None for no evaluation.
        eval_epsilon: Probability of a random action in evaluation.
        eval_interval: Epochs between evaluations.
        save_metrics: Whether anything is written to disk.
        experiment_name: Name of the folder; None for that of the class with "_online".
        with_timestamp: Whether the time is appended to the name.
        logdir: Directory in which the folder is made.
        verbose: Whether hyperparameters and metrics are printed.
        show_progress: Whether progress is shown.
        tensorboard: Whether metrics are written for TensorBoard, too, under `runs`.
        save_interval: Epochs between saved models.
    """
    options = {name: value for name, value in locals().items() if name not in ("env", "algo", "buffer", "explorer")}
    algo.fit_online(env, buffer, explorer, **options)
