"""What hyperparameters may be, by their names, so that errors name them and not what an agent makes of them."""

import os
from typing import Any

from pfrl_like.utils.checks import check_counts, check_flags, check_numbers

#: Those that count something.
COUNTS = frozenset({"batch_size", "n_frames", "n_critics", "n_ensembles", "latent_size", "update_actor_interval"})
#: Those of them that are rows of a minibatch.
ROWS = frozenset({"batch_size", "batch_size_per_update"})
#: Those that are True or False.
FLAGS = frozenset({"bootstrap", "clip_delta", "share_encoder", "soft_q_backup", "use_batch_norm"})
#: Finite numbers of at least 0, and what further ones end in.
AT_LEAST_0 = frozenset({"alpha", "conservative_weight", "eps", "momentum", "regularizing_rate", "vae_kl_weight"})
ENDINGS = ("learning_rate", "weight_decay", "_sigma", "_clip")
#: Numbers with other bounds.
BOUNDS = {"tau": (0.0, 1.0), "target_update_interval": (1.0,)}


def check_ranges(algo: Any) -> None:
    """Refuse hyperparameters of an estimator that are no such numbers or flags.

    Raises:
        TypeError: If one is no number, no integer where something is counted, or no flag.
        ValueError: If one is out of range, or minibatches of one row are to be normalised.
    """
    names = algo.defaults().keys()
    check_flags(**{name: getattr(algo, name) for name in sorted(names & FLAGS)})
    check_counts(**{name: getattr(algo, name) for name in sorted(names & COUNTS)})
    check_counts(least=0, **{name: getattr(algo, name) for name in names & {"rl_start_epoch"}})
    check_counts(optional=True, n_epochs=algo.n_epochs)
    numbered = sorted(name for name in names if name in AT_LEAST_0 | BOUNDS.keys() or name.endswith(ENDINGS))
    for name in numbered:
        check_numbers(*BOUNDS.get(name, (0.0,)), **{name: getattr(algo, name)})
    rows = {name: getattr(algo, name) for name in sorted(names & ROWS)}
    if algo.use_batch_norm and 1 in rows.values():
        given = " and ".join(f"{name} {value}" for name, value in rows.items())
        raise ValueError(f"use_batch_norm is True, but {given}: expected at least 2, as one row has no variance")


def check_folder(logdir: Any, name: str, with_timestamp: bool) -> None:
    """Refuse a folder that cannot be made, since a file is in its place.

    Args:
        logdir: The argument `logdir`.
        name: The folder's name in there.
        with_timestamp: Whether the time will be appended to it, so that nothing is in its place.

    Raises:
        TypeError: If `logdir` is no path.
        ValueError: If it, or a part of the path to it, is a file.
    """
    if not isinstance(logdir, str | os.PathLike):
        raise TypeError(f"logdir is {logdir!r:.80}, expected the path of a folder; save_metrics=False writes nothing")
    path = os.path.abspath(logdir if with_timestamp else os.path.join(logdir, name))
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise ValueError(f"logdir is {os.fspath(logdir)!r}, but {path!r} is a file, expected a folder")
