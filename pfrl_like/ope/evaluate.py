"""All estimates of what a trained algorithm would bring, from recorded episodes alone."""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pfrl_like import agents
from pfrl_like.agents.recorded_data import OneObservation
from pfrl_like.algos.epochs import shown
from pfrl_like.algos.networks import adam, categorical_policy
from pfrl_like.batch import map_nested
from pfrl_like.dataset.selection import Selection
from pfrl_like.dataset.transition import is_image, stacked_shape
from pfrl_like.distributions import mode_of
from pfrl_like.encoders import make_encoder
from pfrl_like.experiments.loop import Clock, run
from pfrl_like.experiments.train_agent_offline import DatasetSource
from pfrl_like.loggers.adapters import NoopAdapterFactory
from pfrl_like.ope.doubly_robust import direct_method, doubly_robust, magic, weighted_doubly_robust
from pfrl_like.ope.episodes import LoggedEpisodes, finite_column
from pfrl_like.ope.estimate import Bootstrap, Estimate, UnreliableEstimateWarning, weakness
from pfrl_like.ope.fqe import FQE, DiscreteFQE
from pfrl_like.ope.fqe_config import FQEConfig
from pfrl_like.ope.importance_sampling import (
    importance_sampling,
    per_decision_importance_sampling,
    weighted_importance_sampling,
    weighted_per_decision_importance_sampling,
)
from pfrl_like.ope.policies import agent_of, certain, evaluates_modes, policy_of, sampled
from pfrl_like.policies import GaussianHeadWithStateIndependentCovariance
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils.contexts import evaluating_readers

Array = NDArray[Any]
#: The estimators that need probabilities, by name.
BY_WEIGHTS: Mapping[str, Callable[..., Estimate]] = {
    "is": importance_sampling, "wis": weighted_importance_sampling,
    "pdis": per_decision_importance_sampling, "wpdis": weighted_per_decision_importance_sampling,
    "dr": doubly_robust, "wdr": weighted_doubly_robust, "magic": magic,
}  # fmt: skip
#: Rows of a forward pass.
_ROWS = 4096


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

    An `UnreliableEstimateWarning` says of all of them at once if importance weights leave too few episodes.

    Args:
        algo: An agent, a built estimator, or a module from observations to distributions of actions.
        dataset: An `MDPDataset`, or a list of episodes.
        gamma: Discount factor per step.
        behavior: Log-probabilities (densities) of the recorded actions under the policy that acted, [n], one for each
            transition; or that policy, as of `algo`; None for the `log_probs` of the data, or, where there are none,
            for a policy that is fitted to them by behavioural cloning.
        deterministic: Whether the modes of the policy are evaluated, not samples; None for what `fqe` evaluates or,
            without it, for what the algorithm does in evaluation. A policy alone, a module, gives samples; one without
            densities, such as that of `TD3PlusBC`, always its modes.
        fqe: Fitted Q evaluation of this algorithm; None fits one.
        n_steps: Updates of what is fitted here.
        config: How an `FQE` is made here; None for an `FQEConfig` with this `gamma`.
        interval: How intervals are made; None for a `Bootstrap` as it is by default.
        estimators: Names of the estimates that are wanted; None for all. "fqe" alone needs no `behavior`.
        show_progress: Whether the progress of what is fitted here is shown.

    Returns:
        Estimates by name: "fqe", and "is", "wis", "pdis", "wpdis", "dr", "wdr" and "magic". A continuous policy whose
        modes are evaluated has no probabilities, and "fqe" alone.

    Raises:
        ValueError: If the data or a number cannot be, `behavior` has another length or holds no log-probabilities,
            there is no estimator of a name, `fqe` evaluates modes where samples are asked for or the reverse, or `fqe`
            or `config` has another `gamma`, or a `reward_scaler`, whose values are not those of the rewards.
        TypeError: If the algorithm has other actions, or a policy has no densities.
    """
    wanted = _wanted(estimators)
    config = FQEConfig(gamma=gamma) if config is None else config
    _check_config("config" if fqe is None else "fqe", config if fqe is None else fqe.config, gamma)
    selection = Selection(dataset)
    rows = Rows.of(selection, getattr(algo, "n_frames", 1))
    probe = getattr(agent_of(algo), "probe", None)
    if probe is not None:  # which refuses observations that do not fit
        probe(OneObservation(rows.obs[0]))
    _check_module(algo, selection, rows.obs[:1])
    modes = _takes_modes(algo, selection, rows.obs[:1], fqe) if deterministic is None else deterministic
    fitted = fqe or _built_fqe(algo, selection, config, modes)
    n_actions = fitted.action_size if selection.discrete_action else None
    target: Array = np.zeros(len(rows.reward))
    recorded: Array | None = target
    weights = [name for name in wanted if name != "fqe" and (selection.discrete_action or not modes)]
    if deterministic is not None:
        _check_policy(fitted, modes)
    if weights:  # what cannot be is told before anything is fitted, which takes its time
        target = log_probs(policy_of(algo, n_actions), rows.obs, rows.action, agent_of(algo), modes=modes)
        recorded = _recorded(behavior, rows, n_actions)
    if fqe is None:
        fitted.fit(
            selection, n_steps, n_steps_per_epoch=n_steps, logger_adapter=NoopAdapterFactory(),
            show_progress=show_progress,
        )  # fmt: skip
    if recorded is None:
        imitator = fitted_behavior(
            selection, n_steps, n_actions, n_frames=fitted.n_frames, show_progress=show_progress
        )  # fmt: skip
        recorded = log_probs(imitator.policy, rows.obs, rows.action, imitator)
    episodes = LoggedEpisodes.from_columns(
        rows.reward, target, recorded, rows.lengths, rows.truncated,
        q=in_parts(fitted.predict_value, rows.obs, rows.action), v=in_parts(fitted.predict_state_value, rows.obs),
        last_v=in_parts(fitted.predict_state_value, rows.last_obs),
    )  # fmt: skip
    found = {"fqe": direct_method(episodes, interval)} if "fqe" in wanted else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableEstimateWarning)
        found |= {name: BY_WEIGHTS[name](episodes, gamma, interval) for name in weights}
    said, left = weakness(episodes) if weights else ("", 0.0)
    if said:
        warnings.warn(UnreliableEstimateWarning(f"{', '.join(weights)}: {said}", left), stacklevel=2)
    return found


def _wanted(estimators: Sequence[str] | None) -> Sequence[str]:
    """Names of estimates."""
    known = ["fqe", *BY_WEIGHTS]
    unknown = [name for name in estimators or () if name not in known]
    if isinstance(estimators, str) or unknown:
        raise ValueError(f"estimators is {estimators!r}, expected some of {', '.join(known)} in a list")
    return known if estimators is None else [name for name in known if name in estimators]


def _check_module(algo: Any, selection: Selection, obs: Array) -> None:
    """Refuse a policy of actions of the other kind; of agents and estimators that is told where they are built."""
    if isinstance(algo, nn.Module):
        shape = sampled(algo, _features(algo, obs)).shape
        if (len(shape) == 1) != selection.discrete_action:
            kinds = "continuous", "discrete"
            raise TypeError(
                f"algo gives {kinds[len(shape) == 1]} actions, of shape {tuple(shape)}, but those of the data are "
                f"{kinds[selection.discrete_action]}"
            )


def _takes_modes(algo: Any, selection: Selection, obs: Array, fqe: FQE | None) -> bool:
    """Whether what is fitted, or else an algorithm, takes the modes of its policy, or there is nothing else to take."""
    alone = fqe is None and isinstance(algo, nn.Module)  # of whose modes nobody has spoken
    modes = not alone and evaluates_modes(algo if fqe is None else fqe.agent)
    if modes or selection.discrete_action:
        return modes
    policy = policy_of(algo, None)
    with torch.no_grad(), evaluating_readers(policy):
        return not getattr(policy(_features(algo, obs)), "has_density", True)


def _features(algo: Any, obs: Array) -> Any:
    """Observations as the policy of an agent takes them."""
    agent = agent_of(algo)
    device = getattr(agent, "device", "cpu")
    features = agent.features(obs, device) if hasattr(agent, "features") else obs
    return map_nested(lambda leaf: torch.as_tensor(leaf, device=device), features)


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """The transitions of episodes, one episode after the other; rewards pay the actions of their rows.

    Attributes:
        obs: Observations, frames stacked, [n, ...].
        action: Actions, [n, A] or [n].
        reward: Rewards, [n].
        lengths: Transitions of each episode, [E].
        truncated: Whether each was cut off, [E].
        last_obs: Their last observations, [E, ...].
        log_prob: Recorded log-probabilities of the actions, [n]; None if not all episodes have them.
    """

    obs: Array
    action: Array
    reward: Array
    lengths: Array
    truncated: Array
    last_obs: Array
    log_prob: Array | None

    @classmethod
    def of(cls, selection: Selection, n_frames: int) -> "Rows":
        """Those of a selection, with so many frames stacked; episodes without a transition are left out."""
        episodes: Sequence[Any] = [episode for episode in selection.episodes if len(episode)]
        seen = [_seen(episode, n_frames) for episode in episodes]
        told = [episode.log_probs for episode in episodes if episode.log_probs is not None]
        return cls(
            np.concatenate([obs[:-1] for obs in seen]),
            np.concatenate([episode.actions[:-1] for episode in episodes]),
            np.concatenate([episode.rewards[1:] for episode in episodes]),
            np.array([len(episode) for episode in episodes]),
            np.array([not episode.terminated for episode in episodes]),
            np.stack([obs[-1] for obs in seen]),
            np.concatenate([each[:-1] for each in told]) if len(told) == len(episodes) else None,
        )


def _seen(episode: Any, n_frames: int) -> Array:
    """The observations of an episode, the last one included, as policies see them, [n + 1, ...]."""
    if n_frames == 1 or not is_image(episode.table):
        return np.asarray(episode.observations)
    start = int(episode.steps[0])
    return np.asarray(episode.table.frames(np.arange(start, start + len(episode) + 1), n_frames))


def log_probs(policy: nn.Module, obs: Array, action: Array, agent: Any = None, *, modes: bool = False) -> Array:
    """Log-probabilities (densities) of actions under a policy, [n].

    Args:
        policy: Module from features to distributions of actions.
        obs: Observations, [n, ...].
        action: Actions, [n, A] or [n].
        agent: Whose `features` and `device` come before the policy; None for none.
        modes: Whether the policy is certain of its modes; for discrete actions.

    Raises:
        TypeError: If the distributions have no density.
    """
    device = getattr(agent, "device", "cpu")

    def of_some(obs: Array, action: Array) -> Array:
        distribution = policy(_features(agent, obs))
        if not getattr(distribution, "has_density", True):
            raise TypeError(f"the policy gives {type(distribution).__name__}, which has no density")
        if modes:
            distribution = certain(mode_of(distribution), distribution.probs.shape[-1])
        taken: Tensor = torch.as_tensor(action, device=device)
        return np.asarray(distribution.log_prob(taken if taken.ndim == 1 else taken.float()).cpu(), np.float64)

    with torch.no_grad(), evaluating_readers(policy):
        return in_parts(of_some, obs, action)


def in_parts(function: Callable[..., Array], *columns: Array) -> Array:
    """A function's values for all rows of some columns, asked for some thousand rows at a time."""
    starts = range(0, len(columns[0]), _ROWS)
    return np.concatenate([function(*(column[start : start + _ROWS] for column in columns)) for start in starts])


def fitted_behavior(
    dataset: Any,
    n_steps: int = 20_000,
    n_actions: int | None = None,
    *,
    n_frames: int = 1,
    show_progress: bool = False,
) -> Any:
    """An agent that imitates recorded actions, whose policy tells how probable they were.

    It is a `DiscreteBC` without penalty, or a `BC` of Gaussians with one covariance for all states.

    Args:
        dataset: An `MDPDataset`, or a list of episodes.
        n_steps: Updates.
        n_actions: How many discrete actions there are; None for those that occur.
        n_frames: How many images are stacked.
        show_progress: Whether progress is shown.
    """
    selection = Selection(dataset)
    encoder = make_encoder(stacked_shape(selection.observation_shape, n_frames))
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


def _check_config(name: str, config: FQEConfig, gamma: float) -> None:
    """Refuse a model whose values are not those of the returns that are asked for."""
    if config.gamma != gamma:
        raise ValueError(f"gamma is {gamma}, but {name} has {config.gamma}, expected the same")
    if config.reward_scaler is not None:
        raise ValueError(f"{name} has the reward_scaler {config.reward_scaler!r:.80}, expected None: values in rewards")


def _check_policy(fqe: FQE, modes: bool) -> None:
    """Refuse a model that evaluates modes where samples are asked for, or the reverse: another policy."""
    names = "samples", "modes"
    if (has := bool(getattr(fqe.agent, "act_deterministically", modes))) != modes:
        raise ValueError(
            f"fqe evaluates {names[has]} of the policy, and deterministic={modes} means {names[modes]}, expected the "
            f"same: set fqe.agent.act_deterministically = {modes} before it is fitted"
        )


def _built_fqe(algo: Any, selection: Selection, config: FQEConfig, modes: bool) -> FQE:
    device = str(getattr(agent_of(algo), "device", "cpu"))
    fqe = (DiscreteFQE if selection.discrete_action else FQE)(algo, config, device)
    fqe.build_with_dataset(selection)
    fqe.agent.act_deterministically = modes
    return fqe


def _recorded(behavior: Any, rows: Rows, n_actions: int | None) -> Array | None:
    """Log-probabilities of the recorded actions as far as they are told, [n]; None if they are not."""
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
    return log_probs(policy_of(behavior, n_actions), rows.obs, rows.action, agent_of(behavior))
