"""`evaluate_offline`: estimates of a trained algorithm's return from recorded episodes."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from pfrl_like import agents
from pfrl_like.algos.fitting.base import Estimator
from pfrl_like.algos.fitting.epochs import progress_callbacks
from pfrl_like.algos.fitting.networks import adam, categorical_policy
from pfrl_like.dataset.selection import Selection
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.encoders import make_encoder
from pfrl_like.experiments.train_agent_offline import DatasetSource
from pfrl_like.loggers import NoopAdapterFactory
from pfrl_like.ope import policies
from pfrl_like.ope.episodes import Array, LoggedEpisodes, Rows, finite_column, first_observation, in_chunks
from pfrl_like.ope.estimates import Bootstrap, Estimate, UnreliableEstimateWarning, reliability, settings_of
from pfrl_like.ope.fqe import FQE
from pfrl_like.ope.fqe_config import FQEConfig, config_of
from pfrl_like.ope.importance_sampling import BY_WEIGHTS, direct_method
from pfrl_like.policies import GaussianHeadWithStateIndependentCovariance
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.runs.loop import Clock, run
from pfrl_like.utils.checks import check_counts, check_flags, check_numbers, levels_to_the_caller


def behavior_log_probs(behavior: Any, rows: Rows, n_actions: int | None) -> Array | None:
    """Return the log-probabilities of the recorded actions under the behaviour policy, [n]; None if they are unknown.

    Args:
        behavior: Log-probabilities (or log-densities) of the recorded actions, [n], or the behaviour policy. If None,
            the function uses the log-probabilities in the data.
        rows: The transitions.
        n_actions: Number of discrete actions; None for continuous actions.

    Raises:
        ValueError: If the number of log-probabilities differs from the number of transitions, or a log-probability is
            positive. If the behaviour policy has actions of the wrong size, or does not accept the observations.
        TypeError: If `behavior` is neither log-probabilities nor a policy. If the policy's distributions have no
            `log_prob`, or if its actions are continuous and the data's discrete, or the reverse.
        NotFittedError: If `behavior` is an estimator whose agent is not built yet.
    """
    behavior = rows.log_prob if behavior is None else behavior
    if behavior is None:
        return None
    if isinstance(behavior, str):
        raise TypeError("behavior: got str, expected log-probabilities, a policy, or None")
    if isinstance(behavior, np.ndarray | Sequence | Tensor):
        recorded = finite_column("behavior", behavior, len(rows.reward))
        if n_actions is not None and recorded.max() > 0:
            raise ValueError(f"behavior has numbers up to {recorded.max():.6g}, expected logarithms of probabilities")
        return recorded
    policy = policies.policy_of(behavior, n_actions, "behavior")
    obs = rows.obs.stacked_for(behavior)
    agent = policies.feature_agent_of(behavior, policy)
    return policies.log_probs(policy, obs, rows.action, agent, argument="behavior")


def fitted_behavior(
    dataset: Any,
    n_steps: int = 20_000,
    n_actions: int | None = None,
    *,
    n_frames: int = 1,
    encoder_params: Mapping[str, Any] | None = None,
    show_progress: bool = False,
) -> Any:
    """Return an agent, trained by behavioural cloning, whose policy estimates the behaviour policy of a dataset.

    The agent is a `DiscreteBC` without penalty, or a `BC` with a Gaussian policy whose covariance does not depend on
    the state.

    Args:
        dataset: `MDPDataset` or list of episodes.
        n_steps: Number of updates.
        n_actions: Number of discrete actions. If None, the largest action in the data plus 1. For continuous actions,
            the argument is ignored.
        n_frames: Number of consecutive images that are stacked.
        encoder_params: Dict with the layer sizes of the encoder. For vector observations: "hidden_units", a list of
            layer sizes. For image observations: "filters", a list of (channels, kernel size, stride), and
            "feature_size", the size of the last linear layer.
        show_progress: True to show a progress bar.

    Raises:
        ValueError: If there is no transition, the data contain more than `n_actions` actions, or a number is out of
            range.
        TypeError: If a number is not an integer, or `dataset` is not a dataset.
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
    with progress_callbacks(clock, show_progress) as callbacks:
        run(DatasetSource(agent, selection, n_frames=n_frames), clock, callbacks)
    return agent


#: Names of the estimators that need fitted Q evaluation.
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
    """Estimate the discounted return of a trained algorithm with every estimator that the data allow.

    If the effective number of episodes is too small, the function issues an `UnreliableEstimateWarning`. It names the
    estimates with importance weights. Once per process, another `UnreliableEstimateWarning` says that the error of
    "fqe" is unknown.

    Args:
        algo: Agent, estimator with a built agent, or module that maps observations to action distributions.
        dataset: `MDPDataset` or list of episodes. Observations are read in chunks.
        gamma: Discount factor per step.
        behavior: Log-probabilities (or log-densities) of the recorded actions under the behaviour policy, [n], one for
            each transition. Or the behaviour policy itself: an agent, an estimator with a built agent, or a module that
            maps observations to action distributions. If None, the `log_probs` of the data are used. If the data have
            no `log_probs`, the function fits a behaviour policy by behavioural cloning.
        deterministic: True to evaluate a policy that selects the modes of the distributions, False to evaluate a policy
            that samples. If None, the default is the choice of `fqe`. If `fqe` is None, too, the default is the
            algorithm's behaviour in evaluation; a module samples. If the distributions have no densities, as for
            `TD3PlusBC`, their modes are always evaluated.
        fqe: Fitted Q evaluation of this algorithm. If None, the function fits an `FQE`, but only if an estimate needs
            it.
        n_steps: Number of updates of each model that this function fits.
        config: Hyperparameters of the `FQE` that this function fits. If None, an `FQEConfig` with this `gamma` is used.
        interval: Settings of confidence intervals. If None, the defaults of `Bootstrap` are used.
        estimators: Names of the estimates to compute. If None, all possible estimates are computed. Only "fqe" does not
            need `behavior`. "is", "wis", "pdis" and "wpdis" do not need fitted Q evaluation.
        show_progress: True to show progress bars of the models that this function fits.

    Returns:
        Dict of estimates with the keys "fqe", "is", "wis", "pdis", "wpdis", "dr", "wdr" and "magic". The
        `start_state_interval` of "fqe" includes only the spread of start states. If the modes of a continuous policy
        are evaluated, actions have no probabilities, and only "fqe" is possible.

    Raises:
        ValueError: If the data are invalid, or a number is out of range. If a policy does not accept the observations,
            or has actions of the wrong size. If `behavior` has the wrong length or does not contain log-probabilities.
            If `estimators` is empty, contains an unknown name, or contains an estimate that is impossible for the
            policy. If `fqe` evaluates another policy than `algo`, or contradicts `deterministic`. If `fqe` or `config`
            has a `reward_scaler`, or another `gamma` than the argument.
        TypeError: If the algorithm cannot act. If its actions are continuous and the data's discrete, or the reverse.
            If a policy's distributions have no `log_prob`, or an argument has the wrong type.
        NotFittedError: If the agent of an estimator is not built yet.
    """
    wanted, interval, config = _estimate_names(estimators), settings_of(interval), _configuration(fqe, config, gamma)
    check_counts(n_steps=n_steps)
    if deterministic is not None:
        check_flags(deterministic=deterministic)
    selection, n_frames = Selection(dataset), int(getattr(algo, "n_frames", 1))
    rows, discrete = Rows.of(selection, n_frames), selection.discrete_action
    least = max(selection.action_size, getattr(fqe, "action_size", None) or 0) if discrete else selection.action_size
    policies.check_fits(algo, discrete, selection.observation_shape, selection.action_size)
    first = first_observation(selection, n_frames)
    policy, agent, distribution, size = policies.dry_run_policy(algo, first, discrete, least)
    if fqe is not None:
        _check_fqe_policy(fqe, policy, deterministic)
    n_actions = size if discrete else None
    modes = _default_modes(algo, distribution, fqe) if deterministic is None else deterministic
    if modes and not discrete:
        wanted = _names_without_weights(wanted, estimators, distribution)
    weights = [name for name in wanted if name in BY_WEIGHTS]
    target: Array = np.zeros(len(rows.reward))
    recorded: Array | None = target
    if weights:  # This is done before the slow fitting, so that errors surface early.
        target = policies.log_probs(policy, rows.obs, rows.action, agent, modes=modes, argument="algo")
        recorded = behavior_log_probs(behavior, rows, n_actions)
    model = None
    if any(name in BY_MODEL for name in wanted):
        model = fqe or _fitted_fqe(algo, selection, config, modes, n_steps, show_progress)
    if recorded is None:
        options: dict[str, Any] = {"encoder_params": config.encoder_params, "show_progress": show_progress}
        imitator = fitted_behavior(selection, n_steps, n_actions, n_frames=n_frames, **options)
        recorded = policies.log_probs(imitator.policy, rows.obs, rows.action, imitator)
    values = {} if model is None else _values_of(model, rows)
    episodes = LoggedEpisodes.from_columns(rows.reward, target, recorded, rows.lengths, rows.truncated, **values)
    estimates = {"fqe": direct_method(episodes, interval)} if "fqe" in wanted else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableEstimateWarning)
        estimates |= {name: BY_WEIGHTS[name](episodes, gamma, interval) for name in weights}
    reason, n_effective = reliability(episodes) if weights else ("", 0.0)
    if reason:
        warning = UnreliableEstimateWarning(f"{', '.join(weights)}: {reason}", n_effective)
        warnings.warn(warning, stacklevel=levels_to_the_caller())
    return estimates


Estimator.evaluate = staticmethod(evaluate_offline)  # `Estimator.score` calls this function


def _estimate_names(estimators: Sequence[str] | None) -> Sequence[str]:
    """Return the names of the estimates to compute, in the order of the results."""
    known = ["fqe", *BY_WEIGHTS]
    if estimators is None:
        return known
    several = isinstance(estimators, Collection) and not isinstance(estimators, str)
    if not several or not estimators or any(name not in known for name in estimators):
        raise ValueError(f"estimators is {estimators!r:.200}, expected a list with some of {', '.join(known)}")
    return [name for name in known if name in estimators]


def _names_without_weights(wanted: Sequence[str], estimators: Sequence[str] | None, distribution: Any) -> Sequence[str]:
    """Return the estimates in `wanted` that need no probabilities. Raise a ValueError if the user asked for others."""
    impossible = [name for name in wanted if name in BY_WEIGHTS]
    if estimators is not None and impossible:
        reason = f"the policy returns {type(distribution).__name__}, which has no probabilities"
        if policies.has_density(distribution):
            reason = "modes of continuous actions have no probabilities: set deterministic=False to evaluate samples"
        raise ValueError(f"estimators is {estimators!r}, but {', '.join(impossible)} need probabilities, and {reason}")
    return [name for name in wanted if name not in impossible]


def _default_modes(algo: Any, distribution: Distribution, fqe: FQE | None) -> bool:
    """Return the default of `deterministic`, as documented in `evaluate_offline`."""
    alone = fqe is None and isinstance(algo, nn.Module)  # a module, whose samples are evaluated
    return not policies.has_density(distribution) or (
        not alone and policies.evaluates_modes(algo if fqe is None else fqe.agent)
    )


def _configuration(fqe: FQE | None, config: FQEConfig | None, gamma: float) -> Any:
    """Return `fqe` or the configuration of a new `FQE`. Raise a ValueError if its `gamma` or its rewards differ."""
    check_numbers(0, 1, gamma=gamma)
    if fqe is not None and not isinstance(fqe, FQE):
        raise TypeError(f"fqe is {fqe!r:.80} ({type(fqe).__name__}), expected an FQE, or None")
    name, used = ("config", config_of(config, gamma=gamma)) if fqe is None else ("fqe", fqe)
    if used.gamma != gamma:
        raise ValueError(f"gamma is {gamma}, but gamma of {name} is {used.gamma}: expected equal values")
    if used.reward_scaler is not None:
        raise ValueError(f"{name} has the reward_scaler {used.reward_scaler!r:.80}, expected None")
    return used


def _check_fqe_policy(fqe: FQE, policy: nn.Module, modes: bool | None) -> None:
    """Raise a ValueError if `fqe` evaluates a policy with other parameters, or the wrong one of modes and samples.

    Args:
        fqe: Fitted Q evaluation.
        policy: The policy.
        modes: True if `fqe` must evaluate modes, False if it must evaluate samples. None accepts both.
    """
    theirs, ours = ([param.detach().cpu() for param in each.parameters()] for each in (fqe.agent.policy, policy))
    if len(theirs) != len(ours) or not all(map(torch.equal, theirs, ours)):
        raise ValueError("fqe evaluates another policy than algo: construct it with FQE(algo)")
    names = "samples", "modes"
    if modes is not None and (has := bool(getattr(fqe.agent, "act_deterministically", modes))) != modes:
        advice = f"set fqe.agent.act_deterministically = {modes} before fqe.fit"
        raise ValueError(f"fqe evaluates {names[has]} of the policy, expected {names[modes]}: {advice}")


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


def _values_of(model: FQE, rows: Rows) -> dict[str, Array]:
    """Return the model's values of transitions, keyed by the argument names of `LoggedEpisodes.from_columns`."""
    return {
        "q": in_chunks(model.predict_value, rows.obs, rows.action),
        "v": in_chunks(model.predict_state_value, rows.obs),
        "last_v": in_chunks(model.predict_state_value, rows.last_obs),
    }
