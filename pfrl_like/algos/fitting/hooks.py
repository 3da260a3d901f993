"""Methods of estimators that users override: `update`, which `fit` calls then, and those that nothing calls."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor

from pfrl_like.utils.user_warnings import warn_once

#: Called with epoch, updates so far and a minibatch; gives the TD errors, if they are known, and the losses by name.
UpdateStep = Callable[[int, int, Any], tuple[Tensor | None, dict[str, Any]]]

#: What to override here, and the methods that users of d3rlpy override in its place.
_INSTEAD = (
    ("update(epoch, total_step, batch), or update(batch)", "_update inner_update"),
    ("create_impl(observation_shape, action_size)", "_create_impl inner_create_impl _process_observation_shape"),
    ("create_impl(observation_shape, action_size)", "build_with_dataset build_with_env"),
    ("update, and let it give a dict of losses by name", "_get_loss_labels get_loss_labels"),
    (
        "generate(algo, transitions) of the dynamics",
        "generate_new_data _generate_new_data _is_generating_new_data _mutate_transition _sample_initial_transitions "
        "_sample_rollout_action _get_rollout_horizon _rollout_length _rollout_policy",
    ),
    ("predict, sample_action or predict_value", "predict_best_action inner_predict_best_action inner_sample_action"),
    ("predict, sample_action or predict_value", "inner_predict_value"),
    ("nothing, and give scorers", "_evaluate"),
    ("nothing, and give logger_adapter", "_prepare_logger set_active_logger save_params _save_params"),
    ("fit_online", "fit_batch_online"),
    (
        "the loss of an agent of pfrl_like.agents",
        "compute_critic_loss compute_actor_loss compute_target update_critic update_actor update_target update_temp "
        "update_alpha update_imitator _compute_advantages _compute_clipped_weights _compute_lambda_returns",
    ),
)

#: Methods that are not called, and what to override instead.
NOT_CALLED: Mapping[str, str] = {name: instead for instead, names in _INSTEAD for name in names.split()}


def is_overridden(algo: Any, *names: str) -> bool:
    """Whether one of an object's methods is not this library's: a subclass, a mix-in or an assignment has another."""
    return any(_is_of_the_user(getattr(algo, name, None)) for name in names)


def _is_of_the_user(method: Any) -> bool:
    if not callable(method):
        return False
    function = getattr(method, "__func__", method)  # by where its code stands: wrappers take names of what they wrap
    return not getattr(function, "__globals__", {}).get("__name__", "").startswith("pfrl_like.")


def warn_of_hooks(algo: Any) -> None:
    """Warn of overridden methods that other versions call, and nothing here."""
    for name, instead in NOT_CALLED.items():
        if is_overridden(algo, name):
            kind = type(algo).__name__
            warn_once((kind, name), f"{kind} defines {name}, which nothing calls here: override {instead}")


def update_step(algo: Any) -> UpdateStep | None:
    """The overridden `update` of an estimator, or of what is fitted like one; None where it is this library's.

    Raises:
        TypeError: If it takes neither (epoch, total_step, batch) nor (batch).
    """
    if not is_overridden(algo, "update"):
        return None
    signature, kind = inspect.signature(algo.update), type(algo).__name__
    whole = _binds(signature, 3)
    if not whole and not _binds(signature, 1):
        raise TypeError(f"update of {kind} takes {signature}, expected (epoch, total_step, batch) or (batch)")

    def step(epoch: int, total_step: int, batch: Any) -> tuple[Tensor | None, dict[str, Any]]:
        algo._updating = epoch, total_step
        algo._learnt = None
        try:
            given = algo.update(epoch, total_step, batch) if whole else algo.update(batch)
        finally:
            algo._updating = None
        td_error, losses = (None, {}) if algo._learnt is None else algo._learnt
        return td_error, _by_name(given, losses, algo)

    return step


def _binds(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _by_name(given: Any, losses: Mapping[str, Any], algo: Any) -> dict[str, Any]:
    """The losses that an overridden `update` gave: a dict as it is, numbers by the names of those that it learnt by.

    Raises:
        TypeError: If it gave neither, nor None.
        ValueError: If there are other numbers of losses than names.
    """
    if isinstance(given, Mapping):
        return dict(given)
    kind = type(algo).__name__
    if not isinstance(given, Iterable | None):
        raise TypeError(f"update of {kind} gave {given!r:.80}, expected losses in a list, or by name in a dict")
    values = [*given] if given is not None else []
    names = [*losses] if len(losses) == len(values) else [*algo.loss_names]
    if values and len(values) != len(names):
        expected = f"those of {', '.join(algo.loss_names)}, or a dict of losses by name"
        raise ValueError(f"update of {kind} gave {len(values)} losses, expected {expected}")
    return {name: value for name, value in zip(names, values, strict=False) if value is not None}
