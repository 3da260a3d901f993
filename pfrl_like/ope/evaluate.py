"""All estimates of a trained algorithm from recorded episodes, whose behaviour is fitted if unknown."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from pfrl_like import agents
from pfrl_like.algos.fitting.base import Estimator
from pfrl_like.algos.fitting.epochs import shown
from pfrl_like.algos.fitting.networks import adam, categorical_policy
from pfrl_like.dataset.selection import Selection
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.encoders import make_encoder
from pfrl_like.experiments.train_agent_offline import DatasetSource
from pfrl_like.loggers import NoopAdapterFactory
from pfrl_like.ope import policies
from pfrl_like.ope.episodes import Array, LoggedEpisodes, Rows, finite_column, first_of, in_parts
from pfrl_like.ope.estimates import Bootstrap, Estimate, UnreliableEstimateWarning, settings_of, weakness
from pfrl_like.ope.fqe import FQE
from pfrl_like.ope.fqe_saving import FQEConfig, config_of
from pfrl_like.ope.importance_sampling import BY_WEIGHTS, direct_method
from pfrl_like.policies import GaussianHeadWithStateIndependentCovariance
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.runs.loop import Clock, run
from pfrl_like.utils.checks import check_counts, check_flags, check_numbers, levels_to_the_caller


def told_log_probs(behavior: Any, rows: Rows, n_actions: int | None) -> Array | None:
    """Log-probabilities of the recorded actions as far as they are told, [n]; None if they are not.

    Args:
        behavior: They, or the policy that acted; None for what the data hold.
        rows: The transitions.
        n_actions: How many discrete actions there are; None of continuous ones.

    Raises:
        ValueError: If there are not as many as transitions, they are none, or the policy has other actions or sees
            other observations.
        TypeError: If `behavior` is neither, or a policy without densities or of actions of the other kind.
        NotFittedError: If it is an estimator that is not built yet.
    """
    behavior = rows.log_prob if behavior is None else behavior
    if behavior is None:
        return None
    if isinstance(behavior, str):
        raise TypeError("behavior: got a str, expected log-probabilities, a policy, or None")
    if isinstance(behavior, np.ndarray | Sequence | Tensor):
        recorded = finite_column("behavior", behavior, len(rows.reward))
        if n_actions is not None and recorded.max() > 0:
            raise ValueError(f"behavior has numbers up to {recorded.max():.6g}, expected logarithms of probabilities")
        return recorded
    policy = policies.policy_of(behavior, n_actions, "behavior")
    obs = rows.obs.stacked_for(behavior)
    return policies.log_probs(policy, obs, rows.action, policies.reader_of(behavior, policy), argument="behavior")


def fitted_behavior(
    dataset: Any,
    n_steps: int = 20_000,
    n_actions: int | None = None,
    *,
    n_frames: int = 1,
    encoder_params: Mapping[str, Any] | None = None,
    show_progress: bool = False,
) -> Any:
    """An agent that imitates recorded actions, whose policy tells how probable they were.

    It is a `DiscreteBC` without penalty, or a `BC` of Gaussians with one covariance for all states.

    Args:
        dataset: An `MDPDataset`, or a list of episodes.
        n_steps: Updates.
        n_actions: How many discrete actions there are; None for those that occur. Not looked at of continuous ones.
        n_frames: How many images are stacked.
        encoder_params: As of `pfrl_like.encoders.make_encoder`.
        show_progress: Whether progress is shown.

    Raises:
        ValueError: If there is no transition, `n_actions` is less than occur, or another number cannot be.
        TypeError: If a number is no integer, or `dataset` is none.
    """
    check_counts(n_steps=n_steps, n_frames=n_frames)
    selection = Selection(dataset)
    if selection.discrete_action and n_actions is not None:
        check_counts(least=selection.action_size, n_actions=n_actions)
    encoder = make_encoder(stacked_shape(selection.observation_shape, n_frames), encoder_params)
    options: dict[str, Any] = {"minibatch_size": min(256, len(selection)), "replay_start_size": len(selection)}
    if selection.discrete_action:
        policy = categorical_policy(encoder, n_actions or selection.action_size)
        make: Any = agents.DiscreteBC
        options["beta"] = 0.0
    else:
        head = GaussianHeadWithStateIndependentCovariance(selection.action_size)
        policy = nn.Sequential(encoder, nn.Linear(encoder.feature_size, selection.action_size), head)
        make = agents.BC
    agent = make(policy, adam(policy, 1e-3, 1e-8), ReplayBuffer(None), **options)
    clock = Clock(n_steps)
    with shown(clock, show_progress) as callbacks:
        run(DatasetSource(agent, selection, n_frames=n_frames), clock, callbacks)
    return agent


#: The estimators that need fitted Q evaluation.
BY_MODEL = ("fqe", "dr", "wdr", "magic")


def evaluate_offline(
    algo: Any,
    dataset: Any,
    *,
    gamma: float = 0.99,
    behavior: Any = None,
    deterministic: bool | None = None,
    fqe: FQE | None = None,
    n_steps: int = 20_000,
    config: FQEConfig | None = None,
    interval: Bootstrap | None = None,
    estimators: Sequence[str] | None = None,
    show_progress: bool = True,
) -> dict[str, Estimate]:
    """The discounted return of a trained algorithm, by every estimator that the data allow.

    An `UnreliableEstimateWarning` says of all of them at once if importance weights leave too few episodes. Another
    one, once a process, says that nothing tells how wrong "fqe" is.

    Args:
        algo: An agent, a built estimator, or a module from observations to distributions of actions.
        dataset: An `MDPDataset`, or a list of episodes. Observations are read part by part.
        gamma: Discount factor per step.
        behavior: Log-probabilities (densities) of the recorded actions under the policy that acted, [n], one for each
            transition; or that policy, as of `algo`; None for the `log_probs` of the data, or, where there are none,
            for a policy that is fitted to them by behavioural cloning.
        deterministic: Whether the modes of the policy are evaluated, not samples; None for what `fqe` evaluates or,
            without it, for what the algorithm does in evaluation. A policy alone, a module, gives samples; one without
            densities, such as that of `TD3PlusBC`, always its modes.
        fqe: Fitted Q evaluation of this algorithm; None fits one, if an estimate needs it.
        n_steps: Updates of what is fitted here.
        config: How an `FQE` is made here; None for an `FQEConfig` with this `gamma`.
        interval: How intervals are made; None for a `Bootstrap` as it is by default.
        estimators: Names of the estimates that are wanted; None for all that there are. "fqe" alone needs no
            `behavior`; "is", "wis", "pdis" and "wpdis" need no fitted Q evaluation.
        show_progress: Whether the progress of what is fitted here is shown.

    Returns:
        Estimates by name: "fqe", whose `start_state_interval` holds the spread of start states alone, and "is", "wis",
        "pdis", "wpdis", "dr", "wdr" and "magic". A continuous policy whose modes are evaluated has no probabilities,
        and of all that there are "fqe" alone; the others are refused if they are asked for by name.

    Raises:
        ValueError: If the data or a number cannot be, a policy does not take the observations or has actions of another
            size, `behavior` has another length or holds no log-probabilities, there is no estimator of a name, no name,
            or one whose estimate the policy does not have, `fqe` evaluates another policy, or modes where samples are
            asked for or the reverse, or `fqe` or `config` has another `gamma`, or a `reward_scaler`, whose values are
            not those of the rewards.
        TypeError: If the algorithm gives no actions or those of the other kind, a policy has no densities, or an
            argument is of no class named here.
        NotFittedError: If an estimator is not built yet.
    """
    wanted, interval, config = _known(estimators), settings_of(interval), _configuration(fqe, config, gamma)
    check_counts(n_steps=n_steps)
    if deterministic is not None:
        check_flags(deterministic=deterministic)
    selection, n_frames = Selection(dataset), int(getattr(algo, "n_frames", 1))
    rows, discrete = Rows.of(selection, n_frames), selection.discrete_action
    shown = max(selection.action_size, getattr(fqe, "action_size", None) or 0) if discrete else selection.action_size
    policies.check_fits(algo, discrete, selection.observation_shape, selection.action_size)
    evaluated = policies.tried(algo, first_of(selection, n_frames), discrete, shown)
    if fqe is not None:
        _check_evaluates(fqe, evaluated.policy, deterministic)
    n_actions = evaluated.size if discrete else None
    modes = _takes_modes(algo, evaluated.distribution, fqe) if deterministic is None else deterministic
    if modes and not discrete:
        wanted = _without_weights(wanted, estimators, evaluated.distribution)
    weights = [name for name in wanted if name in BY_WEIGHTS]
    target: Array = np.zeros(len(rows.reward))
    recorded: Array | None = target
    if weights:  # what cannot be is told before anything is fitted, which takes its time
        target = policies.log_probs(
            evaluated.policy, rows.obs, rows.action, evaluated.agent, modes=modes, argument="algo"
        )
        recorded = told_log_probs(behavior, rows, n_actions)
    model = None
    if any(name in BY_MODEL for name in wanted):
        model = fqe or _fitted_fqe(algo, selection, config, modes, n_steps, show_progress)
    if recorded is None:
        imitator = fitted_behavior(
            selection, n_steps, n_actions, n_frames=n_frames, encoder_params=config.encoder_params,
            show_progress=show_progress,
        )  # fmt: skip
        recorded = policies.log_probs(imitator.policy, rows.obs, rows.action, imitator)
    episodes = LoggedEpisodes.from_columns(
        rows.reward, target, recorded, rows.lengths, rows.truncated, **({} if model is None else _values(model, rows))
    )
    found = {"fqe": direct_method(episodes, interval)} if "fqe" in wanted else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableEstimateWarning)
        found |= {name: BY_WEIGHTS[name](episodes, gamma, interval) for name in weights}
    said, left = weakness(episodes) if weights else ("", 0.0)
    if said:
        warnings.warn(
            UnreliableEstimateWarning(f"{', '.join(weights)}: {said}", left), stacklevel=levels_to_the_caller()
        )
    return found


Estimator.evaluate = staticmethod(evaluate_offline)  # by which estimators are scored


def _known(estimators: Sequence[str] | None) -> Sequence[str]:
    """Names of estimates, in the order of results."""
    known = ["fqe", *BY_WEIGHTS]
    if estimators is None:
        return known
    several = isinstance(estimators, Collection) and not isinstance(estimators, str)
    if not several or not estimators or any(name not in known for name in estimators):
        raise ValueError(f"estimators is {estimators!r:.200}, expected some of {', '.join(known)} in a list")
    return [name for name in known if name in estimators]


def _without_weights(wanted: Sequence[str], estimators: Sequence[str] | None, distribution: Any) -> Sequence[str]:
    """Names of estimates that need no probabilities; if others are asked for by name they are refused."""
    left_out = [name for name in wanted if name in BY_WEIGHTS]
    if estimators is not None and left_out:
        why = f"the policy gives {type(distribution).__name__}, which has none"
        if policies.has_density(distribution):
            why = "modes of continuous actions have none: give deterministic=False to evaluate samples"
        raise ValueError(f"estimators is {estimators!r}, but {', '.join(left_out)} need probabilities, and {why}")
    return [name for name in wanted if name not in left_out]


def _takes_modes(algo: Any, distribution: Distribution, fqe: FQE | None) -> bool:
    """Whether what is fitted, or else an algorithm, takes the modes of its policy, or there is nothing else to take."""
    alone = fqe is None and isinstance(algo, nn.Module)  # of whose modes nobody has spoken
    return not policies.has_density(distribution) or (
        not alone and policies.evaluates_modes(algo if fqe is None else fqe.agent)
    )


def _configuration(fqe: FQE | None, config: FQEConfig | None, gamma: float) -> FQEConfig:
    """That of the model, which is given or made here; refused if its values are not those of the returns asked for."""
    check_numbers(0, 1, gamma=gamma)
    if fqe is not None and not isinstance(fqe, FQE):
        raise TypeError(f"fqe is {fqe!r:.80} ({type(fqe).__name__}), expected an FQE, or None")
    name, used = ("config", config_of(config, gamma=gamma)) if fqe is None else ("fqe", fqe.config)
    if used.gamma != gamma:
        raise ValueError(f"gamma is {gamma}, but {name} has {used.gamma}, expected the same")
    if used.reward_scaler is not None:
        raise ValueError(f"{name} has the reward_scaler {used.reward_scaler!r:.80}, expected None: values in rewards")
    return used


def _check_evaluates(fqe: FQE, policy: nn.Module, modes: bool | None) -> None:
    """Refuse a model of another policy, as far as parameters tell, or one of modes for samples, or the reverse.

    Args:
        fqe: The model.
        policy: The policy.
        modes: Whether modes are asked for; None for what the model evaluates.
    """
    theirs, ours = ([param.detach().cpu() for param in each.parameters()] for each in (fqe.agent.policy, policy))
    if len(theirs) != len(ours) or not all(map(torch.equal, theirs, ours)):
        raise ValueError("fqe evaluates another policy than that of algo, expected the same: make it with FQE(algo)")
    names = "samples", "modes"
    if modes is not None and (has := bool(getattr(fqe.agent, "act_deterministically", modes))) != modes:
        raise ValueError(
            f"fqe evaluates {names[has]} of the policy, and deterministic={modes} means {names[modes]}, expected the "
            f"same: set fqe.agent.act_deterministically = {modes} before it is fitted"
        )


def _fitted_fqe(
    algo: Any, selection: Selection, config: FQEConfig, modes: bool, n_steps: int, show_progress: bool
) -> FQE:
    device = str(getattr(policies.agent_of(algo), "device", "cpu"))
    fqe = FQE(algo, config, device)
    fqe.build_with_dataset(selection)
    fqe.agent.act_deterministically = modes
    fqe.fit(
        selection, n_steps, n_steps_per_epoch=n_steps, logger_adapter=NoopAdapterFactory(), show_progress=show_progress
    )
    return fqe


def _values(model: FQE, rows: Rows) -> dict[str, Array]:
    """What a model says of transitions, by the names of `LoggedEpisodes`."""
    return {
        "q": in_parts(model.predict_value, rows.obs, rows.action),
        "v": in_parts(model.predict_state_value, rows.obs),
        "last_v": in_parts(model.predict_state_value, rows.last_obs),
    }
