"""`check_agent`: the contracts that every agent keeps, whatever its algorithm."""

import copy
import dataclasses
import math
import numbers
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from pfrl_like.batch import Batch, map_nested
from pfrl_like.errors import NonFiniteError
from pfrl_like.testing.chain import Chain
from pfrl_like.testing.play import Episodes, play_one, play_several
from pfrl_like.testing.requirement import difference, require
from pfrl_like.utils.checks import check_action
from pfrl_like.utils.isolated_rng import isolated_rng
from pfrl_like.utils.random_seed import set_random_seed

#: Calls after which an agent on a GPU has to have noticed a bad update (it looks seldom, so that it never waits).
CALLS_ON_GPU = 100


def check_agent(make_agent: Callable[..., Any], env: Any = None, *, n_steps: int = 60, seed: int = 0) -> None:
    """Check that an agent keeps the contracts of `pfrl_like.agent`.

    The agent is trained a little, several times over, in copies of the environment. What is checked is found in the
    names of this module's functions. Those that concern `update`, the replay buffer, saving or acting in several
    environments are left out for agents that have no such thing.

    Args:
        make_agent: Makes an agent with parts of its own; it has to hand keyword arguments on to the agent's constructor,
            and the agent has to begin to learn well within `n_steps` steps.
        env: An environment that the agent can act in; None for a `Chain` cut off after 7 steps. It is copied.
        n_steps: Steps of each trial.
        seed: Seed of the trials, which use the global random streams and leave them as they were.

    Raises:
        AssertionError: Naming the contract that is broken.
    """
    trial = Trial(make_agent, Chain(time_limit=7) if env is None else env, n_steps, seed)
    with isolated_rng(trial.env):
        for check in CHECKS:
            check(trial)


@dataclasses.dataclass(frozen=True)
class Trial:
    """What the checks work with; see `check_agent`."""

    make_agent: Callable[..., Any]
    env: Any
    n_steps: int
    seed: int

    def new_agent(self, seed: int | None = None) -> Any:
        """An untrained agent; the same one for the same seed."""
        set_random_seed(self.seed if seed is None else seed)
        for space in ("action_space", "single_action_space"):  # random actions may be drawn from it
            if hasattr(self.env, space):
                getattr(self.env, space).seed(self.seed)
        return self.make_agent()

    def trained_agent(self) -> Any:
        """An agent after `n_steps` steps."""
        agent = self.new_agent()
        play_one(agent, self.env, self.n_steps)
        return agent

    def observations(self, n: int) -> list[Any]:
        """Some observations of the environment."""
        episodes = Episodes(self.env, self.seed)
        observations = []
        for _ in range(n):
            observations.append(episodes.obs)
            episodes.step(episodes.env.action_space.sample())
        return observations


def check_unknown_keywords_are_refused(trial: Trial) -> None:
    """A misspelt argument raises `TypeError`."""
    try:
        trial.make_agent(not_an_argument=0)
    except TypeError:
        return
    raise AssertionError("the constructor took the unknown keyword not_an_argument, expected a TypeError")


def check_actions_lie_in_the_space(trial: Trial) -> None:
    """In training and evaluation, for one environment and for several."""
    agent, space = trial.new_agent(), trial.env.action_space
    actions = play_one(agent, trial.env, trial.n_steps)
    with agent.eval_mode():
        actions += play_one(agent, trial.env, trial.n_steps)
        if hasattr(agent, "batch_act"):
            actions += sum(play_several(agent, trial.env, 3, trial.n_steps), [])
    if hasattr(agent, "batch_act"):
        actions += sum(play_several(trial.new_agent(), trial.env, 3, trial.n_steps), [])
    for action in actions:
        try:
            check_action(space, action, bounds=False)
        except ValueError as error:
            raise AssertionError(f"the agent chose an action outside the action space: {error}") from error


def check_it_learns(trial: Trial) -> None:
    """Training changes what is saved; a trained agent is not the one that was made."""
    found = difference(_state(trial.new_agent()), _state(trial.trained_agent()))
    require(found is not None, f"nothing has changed after {trial.n_steps} steps of training: does it start to learn?")


def check_same_seed_same_numbers(trial: Trial) -> None:
    """Two agents from one seed are the same, bit for bit, after training."""
    found = difference(_state(trial.trained_agent()), _state(trial.trained_agent()), "state")
    require(found is None, f"the same seed gave two different agents: {found}")


def check_evaluation_changes_nothing(trial: Trial) -> None:
    """Training with an evaluation in the middle of an episode gives the same agent as training without."""
    half = trial.n_steps // 2 - 1

    def train(evaluates: bool) -> Any:
        agent = trial.new_agent()
        episodes = Episodes(trial.env, trial.seed)
        for step in range(2 * half):
            if evaluates and step == half:
                before = copy.deepcopy((_state(agent), _size(agent)))
                with isolated_rng(), agent.eval_mode():
                    play_one(agent, trial.env, trial.n_steps)
                found = difference(before, (_state(agent), _size(agent)), "(state, buffer size)")
                require(found is None, f"an evaluation has changed the agent: {found}")
                require(agent.training, "training is False after eval_mode has been left")
            told = {} if episodes.mask is None else {"action_mask": episodes.mask}
            obs, reward, terminated, truncated, mask = episodes.step(agent.act(episodes.obs, **told))
            told = {} if mask is None else {"action_mask": mask}
            agent.observe(obs, reward, terminated, truncated, **told)
        return _state(agent)

    found = difference(train(evaluates=False), train(evaluates=True), "state")
    require(found is None, f"an evaluation has changed the training after it: {found}")


def check_evaluation_does_not_explore(trial: Trial) -> None:
    """In evaluation the explorer is not asked, and the same observations get the same actions."""
    agent = trial.trained_agent()
    observations = trial.observations(20)

    def evaluate() -> list[Any]:
        set_random_seed(trial.seed)
        with agent.eval_mode():
            agent.observe(observations[0], 0.0, True, False)  # forget what was seen before
            return [_act(agent, obs) for obs in observations]

    explorer = getattr(agent, "explorer", None)
    if explorer is not None:
        agent.explorer = _Forbidden()
    first, second = evaluate(), evaluate()
    if explorer is not None:
        agent.explorer = explorer
    found = difference(first, second, "actions")
    require(found is None, f"in evaluation the same observations got different actions: {found}")


def check_one_environment_is_a_batch_of_one(trial: Trial) -> None:
    """`act` and `observe` give the same numbers as `batch_act` and `batch_observe` for one environment."""
    if not hasattr(trial.new_agent(), "batch_act"):
        return
    agent, batch_agent = trial.trained_agent(), trial.new_agent()
    play_several(batch_agent, trial.env, 1, trial.n_steps)
    found = difference(_state(agent), _state(batch_agent), "state")
    require(found is None, f"a batch of one environment gave other numbers than the environment alone: {found}")


def check_steps_are_counted(trial: Trial) -> None:
    """`t` counts steps in training, of all environments together."""
    agent = trial.new_agent()
    if not hasattr(agent, "t"):
        return
    play_one(agent, trial.env, 5)
    require(agent.t == 5, f"t is {agent.t} after 5 steps")
    with agent.eval_mode():
        play_one(agent, trial.env, 5)
    require(agent.t == 5, f"t is {agent.t} after 5 steps in training and 5 in evaluation, expected 5")
    if hasattr(agent, "batch_act"):
        agent = trial.new_agent()
        play_several(agent, trial.env, 3, 5)
        require(agent.t == 15, f"t is {agent.t} after 5 steps in 3 environments, expected 15")


def check_statistics_are_numbers(trial: Trial) -> None:
    """`get_statistics` gives (name, number) pairs with the same names before and after training."""
    names = []
    for agent in (trial.new_agent(), trial.trained_agent()):
        statistics = agent.get_statistics()
        for pair in statistics:
            well_formed = isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
            require(
                well_formed and isinstance(pair[1], numbers.Real),
                f"get_statistics gave {pair!r}, expected a pair of a name and a number",
            )
        names.append([name for name, _ in statistics])
    require(names[0] == names[1], f"get_statistics gave the names {names[0]} and after training {names[1]}")


def check_a_loaded_agent_is_the_saved_one(trial: Trial) -> None:
    """`load` into a new agent restores everything that was saved, and what the agent does."""
    agent, other = trial.trained_agent(), trial.new_agent(trial.seed + 1)
    with tempfile.TemporaryDirectory() as dirname:
        agent.save(dirname)
        other.load(dirname)
    found = difference(_state(agent), _state(other), "state")
    require(found is None, f"the loaded agent differs from the saved one: {found}")
    actions = []
    for one in (agent, other):
        set_random_seed(trial.seed)
        with one.eval_mode():
            one.act(trial.observations(1)[0])
            one.observe(trial.observations(1)[0], 0.0, True, False)
            actions.append([_act(one, obs) for obs in trial.observations(20)])
    found = difference(*actions, "actions")
    require(found is None, f"the loaded agent acts in another way than the saved one: {found}")


def check_only_termination_stops_bootstrapping(trial: Trial) -> None:
    """What `observe` is told of an episode's end decides what reaches the targets."""
    gamma = getattr(trial.new_agent(), "gamma", None)
    if not hasattr(trial.new_agent(), "replay_buffer") or gamma is None:
        return
    first, second = trial.observations(2)
    for done, reset, expected in ((False, True, gamma), (True, False, 0.0), (True, True, 0.0)):
        agent = trial.new_agent()
        agent.act(first)
        agent.observe(second, 1.0, done, reset)
        discount = agent.replay_buffer.sample_batch(1, gamma).discount.item()
        require(
            math.isclose(discount, expected, rel_tol=1e-6),
            f"a step with done={done} and reset={reset} was stored with the discount {discount}, expected {expected}",
        )


def check_the_discount_decides_about_bootstrapping(trial: Trial) -> None:
    """TD errors depend on the next observation if and only if the discount is not zero."""
    if not _learns_from_batches(trial):
        return

    def td_error(discount: float, other_next_obs: bool) -> Any:
        agent, batch = _agent_and_batch(trial)
        batch = batch.replace(discount=torch.full_like(batch.discount, discount), weight=None)
        if other_next_obs:
            batch = batch.replace(next_obs=map_nested(torch.zeros_like, batch.next_obs))
        set_random_seed(trial.seed)
        return agent.update(batch)[0]

    require(
        difference(td_error(0.0, False), td_error(0.0, True)) is None,
        "with a discount of 0 (a terminated step) the TD error depends on the next observation",
    )
    require(
        difference(td_error(0.9, False), td_error(0.9, True)) is not None,
        "with a discount of 0.9 (a step that went on or was cut off) the TD error does not depend on the next observation",
    )


def check_importance_weights_count(trial: Trial) -> None:
    """Weights of a batch change what is learnt, but not the TD errors."""
    if not _learns_from_batches(trial):
        return
    results = []
    for weight in (None, 1.0, 0.25):
        agent, batch = _agent_and_batch(trial)
        rows = None if weight is None else torch.full_like(batch.reward, weight)
        set_random_seed(trial.seed)
        td_error, stats = agent.update(batch.replace(weight=rows))
        results.append((td_error, stats["loss"]))
    (plain_error, plain_loss), (_, one_loss), (error, loss) = results
    require(difference(plain_error, error) is None, "importance weights change the TD errors, expected only the loss")
    close = torch.isclose(loss, 0.25 * plain_loss, rtol=1e-4) and torch.isclose(one_loss, plain_loss, rtol=1e-4)
    require(close, f"with weights of 0.25 the loss is {loss.item()}, without weights {plain_loss.item()}")


def check_update_learns_and_tells(trial: Trial) -> None:
    """`update` changes parameters and returns TD errors and statistics; `errors_out` gets absolute TD errors."""
    if not _learns_from_batches(trial):
        return
    agent, batch = _agent_and_batch(trial)
    before = copy.deepcopy(_state(agent))
    errors_out = [-1.0]
    td_error, stats = agent.update(batch, errors_out=errors_out)
    require(difference(before["attributes"], _state(agent)["attributes"]) is not None, "update has changed no parameter")
    n = len(batch) if batch.lengths is None else len(batch.lengths)
    require(td_error.shape == (n,), f"update gave TD errors of shape {tuple(td_error.shape)} for {n} items")
    require(not td_error.requires_grad, "update gave TD errors that carry a graph")
    require(
        "loss" in stats and not any(value.requires_grad for value in stats.values()),
        f"update gave the statistics {sorted(stats)}, expected loss among them, all detached",
    )
    found = difference(torch.tensor(errors_out), td_error.abs().cpu(), "errors_out")
    require(found is None, f"errors_out is not the absolute TD errors: {found}")


def check_a_bad_batch_is_refused(trial: Trial) -> None:
    """A reward of NaN raises `NonFiniteError` and changes nothing."""
    if not _learns_from_batches(trial):
        return
    agent, batch = _agent_and_batch(trial)
    before = copy.deepcopy(_state(agent))
    bad = batch.replace(reward=torch.full_like(batch.reward, torch.nan))
    on_cpu = torch.device(getattr(agent, "device", "cpu")).type == "cpu"
    try:
        for _ in range(1 if on_cpu else CALLS_ON_GPU):
            agent.update(bad)
    except NonFiniteError as error:
        found = difference(before, _state(agent), "state")
        require(found is None, f"a refused update has changed something: {found}")
        require(error.batch is bad, "the error of a refused update does not hold its batch")
        return
    raise AssertionError("a batch with rewards of NaN was learnt from, expected a NonFiniteError")


CHECKS: tuple[Callable[[Trial], None], ...] = (
    check_unknown_keywords_are_refused,
    check_actions_lie_in_the_space,
    check_it_learns,
    check_same_seed_same_numbers,
    check_evaluation_changes_nothing,
    check_evaluation_does_not_explore,
    check_one_environment_is_a_batch_of_one,
    check_steps_are_counted,
    check_statistics_are_numbers,
    check_a_loaded_agent_is_the_saved_one,
    check_only_termination_stops_bootstrapping,
    check_the_discount_decides_about_bootstrapping,
    check_importance_weights_count,
    check_update_learns_and_tells,
    check_a_bad_batch_is_refused,
)


class _Forbidden:
    """An explorer that must not be asked."""

    def select_action(self, *arguments: Any, **keywords: Any) -> Any:
        raise AssertionError("the explorer was asked for an action in evaluation")

    select_actions = select_action


def _act(agent: Any, obs: Any) -> Any:
    action = agent.act(obs)
    agent.observe(obs, 0.0, False, False)
    return np.asarray(action)


def _state(agent: Any) -> Any:
    return agent.state_dict()


def _size(agent: Any) -> int:
    return len(agent.replay_buffer) if hasattr(agent, "replay_buffer") else 0


def _learns_from_batches(trial: Trial) -> bool:
    agent = trial.new_agent()
    return hasattr(agent, "update") and hasattr(agent, "replay_buffer")


def _agent_and_batch(trial: Trial) -> tuple[Any, Batch]:
    """A trained agent and a minibatch of what it has seen; the same every time."""
    agent = trial.trained_agent()
    buffer, n = agent.replay_buffer, agent.minibatch_size
    set_random_seed(trial.seed)
    if getattr(agent, "recurrent", False):
        return agent, buffer.sample_sequences(n, agent.episodic_update_len, agent.gamma)
    return agent, buffer.sample_batch(n, agent.gamma)
