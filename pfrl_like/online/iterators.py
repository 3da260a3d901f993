"""Training online, called with the algorithm as an argument."""

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
    """`algo.fit_online` with these arguments, which are described there; `eval_epsilon` is 0.05 here.

    Args:
        env: Environment to train in.
        algo: The algorithm.
        buffer: Replay buffer.
        explorer: Chooses the actions; None for those of a stochastic policy.
        n_epochs: Number of epochs.
        n_steps_per_epoch: Steps of an epoch.
        n_updates_per_epoch: Updates of an epoch.
        update_start_step: Steps that are made before updates begin.
        eval_env: Environment to evaluate in; None for no evaluation.
        eval_epsilon: Probability of a random action in evaluation.
        eval_interval: Epochs between evaluations.
        save_metrics: Whether anything is written.
        experiment_name: Name of the directory; None for that of the class with "_online".
        with_timestamp: Whether the name ends with the time.
        logdir: Where the directory lies.
        verbose: Whether metrics are printed.
        show_progress: Whether progress is shown.
        tensorboard: Whether TensorBoard's files are written.
        save_interval: Epochs between saves of the parameters.
    """
    options = {name: value for name, value in locals().items() if name not in ("env", "algo", "buffer", "explorer")}
    algo.fit_online(env, buffer, explorer, **options)
