"""`check_agent`: checks of the contracts that every agent must meet."""

import contextlib
import copy
import functools
import inspect
import math
import numbers
import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.batch import map_nested
from pfrl_like.envs.make_env import accept_env_ids
from pfrl_like.errors import NonFiniteError
from pfrl_like.learning.acting import has_mask
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.testing import play
from pfrl_like.testing.play import require
from pfrl_like.testing.stream_checks import check_streams
from pfrl_like.testing.trial import UNSEEDED, Trial, compare_with_resumed_run, state_of
from pfrl_like.utils.checks import check_action
from pfrl_like.utils.random_seed import set_random_seed

#: Maximum number of calls of `update` after which an agent on a GPU must raise `NonFiniteError`. The agent does not
#: check every update, because a check synchronises the CPU with the GPU.
CALLS_ON_GPU = 100


@accept_env_ids("env")
def check_agent(make_agent: Callable[..., Any], env: Any = None, *, n_steps: int = 40, seed: int = 0) -> None:
    """Check that an agent meets the contracts of `pfrl_like.agent`.

    To check your own Q-function, explorer or replay buffer, pass a function that makes an agent with it. For example::

        def make_agent(**options):
            q_function = nn.Sequential(nn.Linear(5, 2), DiscreteActionValueHead())  # or your own
            return DQN(
                q_function, torch.optim.Adam(q_function.parameters()), ReplayBuffer(1_000), 0.9, YourExplorer(),
                replay_start_size=10, minibatch_size=4, target_update_interval=5, **options,
            )

        check_agent(make_agent)

    The function trains the agent several times for a few steps in copies of the environment. Each `check_*` function of
    this module checks one contract. A check of `update`, of the replay buffer or of several environments is skipped if
    the agent has no `update`, no replay buffer or no `batch_act`.

    Args:
        make_agent: Function that returns a new agent with new networks, optimisers and buffer. The function must pass
            its keyword arguments to the agent's constructor. The agent must make its first updates well before
            `n_steps` steps. If the global random streams have the same seed, the function must return the same agent.
            If an explorer samples from the action space of `env`, the check seeds this space. If an explorer samples
            from another action space, the function must seed that space.
        env: Environment in which the agent can act, or its id. The check uses copies of the environment. If None, the
            check uses a `Chain` with a time limit of 7 steps, one-hot float32 observations [5], and the actions 0
            and 1.
        n_steps: Number of steps of each training run.
        seed: Seed of the global random streams in the training runs. The function restores the streams at its end.

    Raises:
        AssertionError: If the agent violates a contract. The message describes the error.
    """
    env = play.Chain(time_limit=7) if env is None else env
    with isolated_rng(env), tempfile.TemporaryDirectory() as folder:
        trial = Trial(make_agent, env, n_steps, seed, folder)
        for check in (*CHECKS, *(BATCH_CHECKS if trial.learns_from_batches else ())):
            check(trial)


# The checks are made in the order in which they are defined here. Those that change the trained agent come last.


def check_unknown_keywords_are_rejected(trial: Trial) -> None:
    """Check that a misspelt argument raises `TypeError`."""
    message = "the constructor accepted the unknown keyword not_an_argument, expected a TypeError"
    play.require_error(TypeError, message, functools.partial(trial.make_agent, not_an_argument=0))


def check_training_changes_the_agent(trial: Trial) -> None:
    """Check that the saved state of a trained agent differs from the saved state of a new agent."""
    states = [_learned_state(state_of(agent)) for agent in (trial.new_agent(), trial.trained)]
    require(play.difference(*states), f"the agent's state has not changed after {trial.n_steps} steps of training")


def check_same_seed_gives_the_same_agent(trial: Trial) -> None:
    """Check that two agents with the same seed are bitwise equal after training."""
    agent = trial.new_agent()
    actions = play.play_one(agent, trial.env, trial.n_steps)
    message, first = f"the same seed gave two different agents ({UNSEEDED})", (trial.actions, state_of(trial.trained))
    trial.require_equal(first, (actions, state_of(agent)), message, "(actions, state)")


def check_evaluation_changes_nothing(trial: Trial) -> None:
    """Check that an evaluation in the middle of a training episode does not change the trained agent."""
    agent, episodes = trial.new_agent(), None
    for step in range(trial.n_steps):
        if step == trial.n_steps * 2 // 3:
            before, names = copy.deepcopy(_state_and_size(agent)), "(state, buffer size)"
            with isolated_rng(trial.env), agent.eval_mode():
                play.play_one(agent, trial.env, 10)
            trial.require_equal(before, _state_and_size(agent), "an evaluation has changed the agent", names)
            require(agent.training, "training is False after eval_mode has been left")
        episodes = play.Episodes(trial.env, 0) if episodes is None else episodes
        play.play_step(agent, episodes)
    trial.require_equal(state_of(trial.trained), state_of(agent), "an evaluation has changed the training after it")


def check_evaluation_does_not_explore(trial: Trial) -> None:
    """Check that evaluation does not call the explorer, and that equal observations get equal actions."""
    agent, error = trial.trained, AssertionError("the explorer was called in evaluation")
    explorer = mock.Mock(**{"select_action.side_effect": error, "select_actions.side_effect": error})
    has_explorer = getattr(agent, "explorer", None) is not None
    with mock.patch.object(agent, "explorer", explorer) if has_explorer else contextlib.nullcontext():
        first, second = trial.evaluated(agent), trial.evaluated(agent)
    trial.require_equal(first, second, "in evaluation the same observations got different actions", "actions")


def check_actions_lie_in_the_space(trial: Trial) -> None:
    """Check that actions are in the action space, in training and evaluation, with one or several environments."""
    agent, actions = trial.trained, list(trial.actions)
    with agent.eval_mode(), isolated_rng():
        actions += play.play_one(agent, trial.env, 10)
    if hasattr(agent, "batch_act"):
        agent = trial.new_agent()
        actions += sum(play.play_several(agent, trial.env, 3, trial.n_steps // 3), [])
        with agent.eval_mode():
            actions += sum(play.play_several(agent, trial.env, 2, 10), [])  # another number of environments
    for action in actions:
        try:
            check_action(trial.env.action_space, action, bounds=False)
        except ValueError as error:
            raise AssertionError(f"the agent chose an action outside the action space: {error}") from error


def check_one_environment_is_a_batch_of_one(trial: Trial) -> None:
    """Check that `act` and `observe` have the same results as `batch_act` and `batch_observe` for one environment."""
    if not hasattr(trial.trained, "batch_act"):
        return
    agent = trial.new_agent()
    play.play_several(agent, trial.env, 1, trial.n_steps)
    message = "a batch of one environment gave other numbers than the environment alone"
    trial.require_equal(state_of(trial.trained), state_of(agent), message)


def check_steps_are_counted(trial: Trial) -> None:
    """Check that the agent's `t` is the number of training steps, summed over all environments."""
    agent = trial.trained
    if not hasattr(agent, "t"):
        return
    with agent.eval_mode(), isolated_rng():
        play.play_one(agent, trial.env, 5)
    require(agent.t == trial.n_steps, f"t is {agent.t} after {trial.n_steps} steps in training and 5 in evaluation")
    if hasattr(agent, "batch_act"):
        agent = trial.new_agent()
        play.play_several(agent, trial.env, 3, 5)
        require(agent.t == 15, f"t is {agent.t} after 5 steps in 3 environments, expected 15")


def check_statistics_are_numbers(trial: Trial) -> None:
    """Check that `get_statistics` returns (name, number) pairs with the same names before and after training."""
    names = []
    for agent in (trial.new_agent(), trial.trained):
        statistics = agent.get_statistics()
        for pair in statistics:
            well_formed = isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
            message = f"get_statistics returned {pair!r}, expected a pair of a name and a number"
            require(well_formed and isinstance(pair[1], numbers.Real), message)
        names.append([name for name, _ in statistics])
    require(names[0] == names[1], f"get_statistics returned the names {names[0]}, and after training {names[1]}")


def check_a_loaded_agent_is_the_saved_one(trial: Trial) -> None:
    """Check that an agent that loads the saved files has the same state and selects the same actions."""
    agent, other = trial.trained, trial.new_agent(trial.seed + 1)
    with tempfile.TemporaryDirectory() as dirname:
        agent.save(dirname)
        other.load(dirname)
    trial.require_equal(state_of(agent), state_of(other), "the loaded agent differs from the saved agent")
    message = "the loaded agent and the saved agent select different actions"
    trial.require_equal(trial.evaluated(agent), trial.evaluated(other), message, "actions")


def check_only_termination_stops_bootstrapping(trial: Trial) -> None:
    """Check that targets do not bootstrap after a step with `done=True`, and bootstrap after all other steps."""
    gamma = getattr(trial.trained, "gamma", None)
    if not trial.learns_from_batches or gamma is None:
        return
    first, second = trial.observations[:2]
    for done, reset, expected in ((False, True, gamma), (True, False, 0.0), (True, True, 0.0)):
        agent = trial.new_agent()
        agent.act(first)
        agent.observe(second, 1.0, done, reset)
        discount = agent.replay_buffer.sample_batch(1, gamma).discount.item()
        message = f"a step with done={done} and reset={reset} was stored with the discount {discount}"
        require(math.isclose(discount, expected, rel_tol=1e-6), f"{message}, expected {expected}")


def check_training_data_are_the_true_steps(trial: Trial) -> None:
    """Check that the agent learns from the steps that several environments made, in every autoreset mode."""
    agent = trial.trained
    learns = hasattr(agent, "update") or hasattr(agent, "learn")
    if learns and hasattr(agent, "batch_act") and hasattr(agent, "gamma"):
        check_streams(trial.new_agent, trial.env, trial.n_steps, trial.seed, trial.require_equal, state_of)


def check_an_interrupted_run_resumes(trial: Trial) -> None:
    """Check that an interrupted run, resumed in new objects with `resume=True`, ends like an uninterrupted run."""
    compare_with_resumed_run(trial)


def check_masked_actions_are_not_selected(trial: Trial) -> None:
    """Check that no masked action is selected: always in evaluation, and in training if the environment has masks."""
    n_actions = getattr(trial.env.action_space, "n", 0)
    if n_actions < 2 or "action_mask" not in inspect.signature(trial.trained.act).parameters:
        return
    agent_in_training, episodes = trial.new_agent(), play.Episodes(trial.env, trial.seed)
    for i in range(200 if episodes.mask is not None or has_mask([episodes.obs]) else 0):
        allowed = i % n_actions
        selected = int(agent_in_training.act(episodes.obs, action_mask=np.arange(n_actions) == allowed))
        message = f"in training the agent chose action {selected}, but the action mask allows only {allowed}: "
        require(selected == allowed, f"{message}an explorer must select an action that action_value.action_mask allows")
    agent = trial.trained_again()
    with agent.eval_mode(), isolated_rng(trial.env):
        for action in range(n_actions):
            selected = int(agent.act(trial.observations[action], action_mask=np.arange(n_actions) == action))
            require(selected == action, f"the agent chose action {selected}, but the action mask allows only {action}")


def check_bootstrapping_depends_on_the_discount(trial: Trial) -> None:
    """Check that TD errors depend on the next observation if the discount is not 0, and only then.

    If the agent's `bootstraps` is False, they must never depend on it. If the agent's `joins_next_states` is True, the
    discount 0 is not checked, because the agent's batch normalisation always uses the next states.
    """
    agent = trial.trained
    if not hasattr(agent, "update") or not hasattr(agent, "gamma"):
        return
    batch = trial.batch_of(trial.trained) if trial.learns_from_batches else trial.episode()
    other_next_obs = map_nested(torch.zeros_like, batch.next_obs)

    def depends(discount: float) -> bool:
        errors: list[Tensor] = []
        for next_obs in (batch.next_obs, other_next_obs):
            rows = torch.full_like(batch.discount, discount)
            set_random_seed(trial.seed)
            errors.append(trial.trained_again().update(batch.replace(discount=rows, next_obs=next_obs))[0])
        return not torch.allclose(errors[0], errors[1], rtol=1e-4, atol=1e-6)

    joined = getattr(agent, "joins_next_states", False)
    message = "with a discount of 0 (a terminated step) the TD error depends on the next observation"
    require(joined or not depends(0.0), message)
    if not getattr(agent, "bootstraps", True):
        require(not depends(0.9), "bootstraps is False, but the TD error depends on the next observation")
        return
    message = "with a discount of 0.9 (a step that is not terminated) the TD error ignores the next observation"
    require(not trial.learns_from_batches or depends(0.9), message)  # without a buffer, `update` may need episodes


def check_masked_actions_do_not_change_td_errors(trial: Trial) -> None:
    """Check that the Q-values of masked actions do not change the TD errors of a batch."""
    n_actions = getattr(trial.env.action_space, "n", 0)
    if n_actions < 2:
        return
    batch = trial.batch_of(trial.trained)
    mask = torch.ones(len(batch.reward), n_actions, dtype=torch.bool, device=batch.reward.device)
    mask[:, -1] = False
    batch = batch.replace(action=torch.zeros_like(batch.action), action_mask=mask, next_action_mask=mask)
    errors: list[Tensor] = []
    for value in (-100.0, 100.0):

        def change(module: nn.Module, inputs: Any, output: Any) -> Any:
            if type(output) is not DiscreteActionValue:
                return output
            rest = output.q_values[:, :-1]
            last = torch.full_like(output.q_values[:, -1:], value)  # noqa: B023 - called in this iteration
            return DiscreteActionValue(torch.cat([rest, last], 1), action_mask=output.action_mask)

        agent = trial.trained_again()
        with contextlib.ExitStack() as stack:
            for part in vars(agent).values():
                if isinstance(part, nn.Module):
                    stack.callback(part.register_forward_hook(change).remove)
            set_random_seed(trial.seed)
            errors.append(agent.update(batch)[0])
    message = "TD errors depend on the value of a masked action"
    require(torch.allclose(errors[0], errors[1], rtol=1e-4, atol=1e-6), message)


def check_importance_weights_multiply_the_loss(trial: Trial) -> None:
    """Check that the weights of a batch multiply the loss and do not change the TD errors."""
    batch, results = trial.batch_of(trial.trained), []
    for weight in (None, 0.25):
        rows = None if weight is None else torch.full_like(batch.reward, weight)
        set_random_seed(trial.seed)
        td_error, stats = trial.trained_again().update(batch.replace(weight=rows))
        results.append((td_error, stats["loss"].item()))
    (plain_error, plain_loss), (error, loss) = results
    require(torch.allclose(plain_error, error), "importance weights change the TD errors, expected only the loss")
    message = f"with weights of 0.25 the loss is {loss}, without weights {plain_loss}"
    require(math.isclose(loss, 0.25 * plain_loss, rel_tol=1e-4), message)


def check_update_changes_parameters(trial: Trial) -> None:
    """Check that `update` changes parameters, returns TD errors and statistics, and fills the list `errors_out`."""
    agent, batch = trial.trained_again(), trial.batch_of(trial.trained)
    before = copy.deepcopy(_learned_state(state_of(agent)))
    errors_out = [-1.0]
    td_error, stats = agent.update(batch, errors_out=errors_out)
    require(play.difference(before, _learned_state(state_of(agent))), "update has not changed any parameter")
    n = len(batch) if batch.lengths is None else len(batch.lengths)
    require(td_error.shape == (n,), f"update returned TD errors of shape {tuple(td_error.shape)} for {n} items")
    require(not td_error.requires_grad, "update returned TD errors that are not detached")
    message = f"update returned the statistics {sorted(stats)}, expected loss among them, all detached"
    require("loss" in stats and not any(value.requires_grad for value in stats.values()), message)
    message = "errors_out is not the absolute TD errors"
    trial.require_equal(torch.tensor(errors_out), td_error.abs().float().cpu(), message, "errors_out")


def check_a_batch_with_nan_is_rejected(trial: Trial) -> None:
    """Check that a batch with NaN raises `NonFiniteError` and does not change the agent.

    The rewards are NaN. If the agent's `bootstraps` is False, the observations are NaN instead, because such an agent
    may ignore the rewards.
    """
    agent, batch = trial.trained_again(), trial.batch_of(trial.trained)
    before = copy.deepcopy(state_of(agent))
    name = "reward" if getattr(agent, "bootstraps", True) else "obs"
    bad = batch.replace(**{name: map_nested(lambda leaf: torch.full_like(leaf, torch.nan), getattr(batch, name))})
    on_cpu, logger = trial.on_cpu, getattr(agent, "logger", None)
    try:
        with contextlib.nullcontext() if logger is None else mock.patch.object(logger, "disabled", True):
            for _ in range(1 if on_cpu else CALLS_ON_GPU):
                agent.update(bad)
    except NonFiniteError as error:
        # On a GPU the agent raises the error several updates later, and its counters include the updates until then.
        part = (lambda state: state) if on_cpu else _learned_state
        trial.require_equal(part(before), part(state_of(agent)), "a rejected update has changed the agent")
        # On a GPU the agent does not know which batch contained NaN.
        require(not on_cpu or error.batch is bad, "the error of a rejected update does not contain its batch")
        return
    raise AssertionError(f"a batch with {name} of NaN was accepted by update, expected a NonFiniteError")


_ALL = [each for name, each in [*globals().items()] if name.startswith("check_") and each.__module__ == __name__]
_FIRST_OF_BATCHES = _ALL.index(check_masked_actions_do_not_change_td_errors)
CHECKS = _ALL[1:_FIRST_OF_BATCHES]  # without `check_agent`
#: Checks of agents that have `update` and a replay buffer.
BATCH_CHECKS = _ALL[_FIRST_OF_BATCHES:]


def _learned_state(state: dict[str, Any]) -> Any:
    """Return the saved attributes without counters, or the complete state if there are no saved attributes."""
    return state.get("attributes") or state


def _state_and_size(agent: Any) -> tuple[Any, int]:
    """Return the agent's state, and the number of items in its replay buffer (0 if it has no buffer)."""
    return state_of(agent), len(getattr(agent, "replay_buffer", None) or ())
