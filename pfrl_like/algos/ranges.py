"""What hyperparameters may be, by their names, so that errors name them and not what an agent makes of them."""

from typing import Any

from pfrl_like.utils.checks import check_counts, check_flags, check_numbers

#: Those that count something.
COUNTS = frozenset({"batch_size", "n_frames", "n_critics", "n_ensembles", "latent_size", "update_actor_interval"})
#: Those that are True or False.
FLAGS = frozenset({"bootstrap", "share_encoder", "use_batch_norm"})
#: Finite numbers of at least 0, and what further ones end in.
AT_LEAST_0 = frozenset({"eps", "momentum", "regularizing_rate"})
ENDINGS = ("learning_rate", "weight_decay", "_sigma", "_clip")
#: Numbers with other bounds.
BOUNDS = {"tau": (0.0, 1.0), "target_update_interval": (1.0,)}


def check_ranges(algo: Any) -> None:
    """Refuse hyperparameters of an estimator that are no such numbers or flags.

    Raises:
        TypeError: If one is no number, no integer where something is counted, or no flag.
        ValueError: If one is out of range.
    """
    names = algo.defaults().keys()
    check_flags(**{name: getattr(algo, name) for name in sorted(names & FLAGS)})
    check_counts(**{name: getattr(algo, name) for name in sorted(names & COUNTS)})
    check_counts(least=0, **{name: getattr(algo, name) for name in names & {"rl_start_epoch"}})
    numbered = sorted(name for name in names if name in AT_LEAST_0 | BOUNDS.keys() or name.endswith(ENDINGS))
    for name in numbered:
        check_numbers(*BOUNDS.get(name, (0.0,)), **{name: getattr(algo, name)})
