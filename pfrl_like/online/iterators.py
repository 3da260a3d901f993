"""Online training of an algorithm, with the function `train` of d3rlpy's scripts."""

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
    """Call `algo.fit_online` with these arguments; the default of `eval_epsilon` is 0.05.

    Args:
        env: Environment that `pfrl_like.env.as_gymnasium` accepts, or an environment id such as "Pendulum-v1".
        algo: Algorithm with the method `fit_online`.
        buffer: Replay buffer of `pfrl_like.replay_buffers` or `pfrl_like.online.buffers`. It stores transitions with
            unstacked observations. If None, a buffer of one million transitions is created.
        explorer: Explorer of `pfrl_like.explorers` or `pfrl_like.online.explorers`. If None, the policy chooses the
            actions, so there is exploration only if the policy is stochastic.
        n_epochs: Number of epochs. Each epoch collects steps and then makes updates.
        n_steps_per_epoch: Number of steps per epoch.
        n_updates_per_epoch: Number of updates at the end of an epoch.
        update_start_step: Number of first steps without updates. There is also no update if the buffer contains fewer
            than `batch_size` steps. If an epoch has no update for this reason, it prints no losses, and a warning is
            issued, once per process.
        eval_env: Environment for evaluations, or its id. It must not be `env`. None disables evaluation.
        eval_epsilon: Probability of a random action during evaluation.
        eval_interval: Number of epochs between evaluations.
        save_metrics: True to write metrics and models to disk.
        experiment_name: Name of the folder. If None, the class name plus "_online" is used.
        with_timestamp: True to append the current time to the name.
        logdir: Directory in which the folder is created.
        verbose: True to print hyperparameters and metrics.
        show_progress: True to show a progress bar.
        tensorboard: True to also write metrics for TensorBoard to the directory `runs`.
        save_interval: Number of epochs between saved models.
    """
    options = {name: value for name, value in locals().items() if name not in ("env", "algo", "buffer", "explorer")}
    algo.fit_online(env, buffer, explorer, **options)
