"""`MDPDataset(episode_terminals=, action_space=)`: rows and rewards as d3rlpy 0.90 and 1.1.1 make them."""

import json
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from pfrl_like.dataset import MDPDataset

#: What `tests/peers/d3rlpy_1_files.py` wrote.
FOLDER = Path(__file__).parents[2] / "data/peers/d3rlpy_1"
#: Nine rows whose observation is their index, and whose reward is 10 more: a terminal end, a time limit, a part.
OBS, REWARDS = np.arange(9, dtype=np.float32)[:, None], np.arange(9) + 10.0
ACTIONS = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2])
TERMINALS, ENDS = np.eye(9)[3], np.eye(9)[3] + np.eye(9)[6]
#: Per step: observation, action, reward of the action, terminal.
OF_0_90 = [[(0, 0, 11, 0), (1, 1, 12, 0), (2, 2, 13, 1)], [(4, 1, 15, 0), (5, 2, 16, 0)]]
OF_1_1_1 = [[(0, 0, 10, 0), (1, 1, 11, 0), (2, 2, 12, 0), (3, 0, 13, 1)], [(4, 1, 14, 0), (5, 2, 15, 0)]]


def made(**options: Any) -> MDPDataset:
    rows = {"observations": OBS, "actions": ACTIONS, "rewards": REWARDS, "terminals": TERMINALS}
    return MDPDataset(**rows | {"episode_terminals": ENDS} | options)


def steps(data: MDPDataset) -> list[list[tuple[int, ...]]]:
    return [[(int(t.observation[0]), t.action, int(t.action_reward), t.terminal) for t in each] for each in data]


@pytest.mark.parametrize(("convention", "facts"), [("next_row", OF_0_90), ("same_row", OF_1_1_1)])
def test_rewards_are_those_of_the_releases(convention: str, facts: list[list[tuple[int, ...]]]) -> None:
    data = made(reward_convention=convention)
    assert steps(data) == facts and data.reward_convention == convention
    assert data.is_action_discrete() and data.get_action_size() == 3
    assert len(data.observations) == 7  # rows after the last end are dropped


@pytest.mark.parametrize(
    ("version", "reward", "facts"), [("0.90", "next_reward", OF_0_90), ("1.1.1", "reward", OF_1_1_1)]
)
def test_the_facts_are_those_that_the_releases_wrote(version: str, reward: str, facts: Any) -> None:
    written = json.loads((FOLDER / f"steps_{version}.json").read_text())
    names = "observation", "action", reward, "terminal"
    assert [[tuple(step[name] for name in names) for step in episode] for episode in written] == facts


def test_the_convention_is_required_where_releases_disagree() -> None:
    with pytest.raises(ValueError, match=r'd3rlpy .* disagree .*reward_convention="next_row".*"same_row" for 1.1'):
        made()
    with pytest.raises(ValueError, match="disagree"):
        made(terminals=np.zeros(9))
    with pytest.raises(ValueError, match="disagree"):
        made(rewards=np.ones(9))
    agreed = made(terminals=np.zeros(9), rewards=np.repeat([1.0, 2.0, 5.0], [4, 3, 2]))
    assert [[step[2] for step in episode] for episode in steps(agreed)] == [[1, 1, 1], [2, 2]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeouts": np.zeros(9)}, "timeouts and episode_terminals: got both"),
        ({"episode_terminals": np.zeros(9), "terminals": np.zeros(9)}, "episode_terminals: is set in no row"),
        ({"episode_terminals": np.eye(9)[6]}, r"not set in row 3, but terminals is: pass np\.maximum"),
        ({"episode_terminals": np.ones(8)}, r"episode_terminals: got shape \(8,\)"),
        ({"action_space": Discrete(2)}, "actions: got 2, expected actions of action_space, below 2"),
        ({"action_space": Discrete(3, start=1)}, r"Discrete\(3, start=1\), .*starts at 0: subtract 1 from actions"),
        ({"action_space": Box(-1, 1, (3,)), "actions": np.ones((9, 2))}, r"got shape \(9, 2\), expected \(9, 3\)"),
        ({"action_space": Box(-1, 1, (1,)), "discrete_action": True}, "action_space is Box.*expected a Discrete"),
    ],
)
def test_ends_and_spaces_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(reward_convention="same_row", **options)


def test_a_space_names_the_kind_and_the_number_of_actions() -> None:
    kinds = Enum("ActionSpace", ["CONTINUOUS", "DISCRETE"])
    column = {"actions": np.float32(ACTIONS)[:, None], "reward_convention": "same_row"}
    data = made(action_space=Discrete(5), **column)
    assert data.is_action_discrete() and data.get_action_size() == 5 and data[0].get_action_size() == 5
    assert made(action_space=kinds.DISCRETE, **column).get_action_size() == 3
    for space in (kinds.CONTINUOUS, Box(-1, 1, (1,))):
        assert not made(action_space=space, **column).is_action_discrete()
    with pytest.raises(TypeError, match="action_space is 3, expected a Discrete, a Box or an ActionSpace"):
        made(action_space=3, **column)


def test_actions_decide_themselves_without_a_kind() -> None:
    column = {"actions": np.float32(ACTIONS)[:, None], "reward_convention": "same_row"}
    assert made(discrete_action=None, **column).is_action_discrete()
    assert not made(**column).is_action_discrete()
    assert not made(discrete_action=None, **column | {"actions": column["actions"] + 0.5}).is_action_discrete()
    assert not made(discrete_action=None, **column | {"actions": np.zeros((9, 2))}).is_action_discrete()
    floats = {"actions": np.float32(ACTIONS), "reward_convention": "same_row"}
    with pytest.warns(UserWarning, match=r"whole numbers of shape \(9,\), treated as discrete: pass .*reshape"):
        assert made(**floats).is_action_discrete()
