"""Where an environment tells which actions are allowed, no other is taken, and what was allowed is stored."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agent_parts import make_agent
from estimator_parts import QUIET, SEQUENTIAL, make
from masked_parts import OneAllowed, check_stored
from torch import nn

from pfrl_like.algos import EpochDQN
from pfrl_like.experiments import EpochRunner, collect_demonstrations
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.metrics import evaluate_on_environment
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import ReplayBuffer

ONLINE: dict[str, Any] = {"n_epochs": 1, "n_steps_per_epoch": 40, "n_updates_per_epoch": 4, **QUIET}


def epoch_dqn(kind: type[EpochDQN] = EpochDQN, **options: Any) -> EpochDQN:
    qf = nn.Sequential(nn.Linear(5, 3), DiscreteActionValueHead())
    small = {"steps_per_epoch": 3, "n_train_steps": 2, "buffer_batch_size": 5, "min_buffer_size": 8}
    return kind(OneAllowed(), None, qf, ReplayBuffer(100), **(small | options))


def test_epochs_keep_to_allowed_actions_and_store_them(tmp_path: Path) -> None:
    algorithm = epoch_dqn(exploration_policy=ConstantEpsilonGreedy(0.5, lambda: 0))
    EpochRunner(algorithm, OneAllowed(), tmp_path, eval_n_episodes=1).train(2)
    assert len(algorithm.replay_buffer) == 2 * 3 * 5 and algorithm.agent.optim_t > 0
    check_stored(algorithm.replay_buffer)


def test_an_algorithm_that_takes_no_masks_is_told_of_none(tmp_path: Path) -> None:
    class Plain(EpochDQN):
        def act(self, obs: Any) -> Any:  # type: ignore[override]
            super().act(obs)
            return int(obs[0]) % 3

        def observe(self, obs: Any, reward: float, terminated: bool, truncated: bool) -> None:  # type: ignore[override]
            super().observe(obs, reward, terminated, truncated)

    algorithm = epoch_dqn(Plain)
    EpochRunner(algorithm, OneAllowed(), tmp_path, eval_n_episodes=0).train(1)
    assert algorithm.replay_buffer.sample_batch(5).action_mask is None


@pytest.mark.parametrize("options", [{}, {"random_steps": 30}, {"explorer": ConstantEpsilonGreedy(0.5, lambda: 0)}])
@pytest.mark.parametrize("name", ["DQN", "DiscreteBCQ", "DiscreteBC", "DiscreteAWR", "DiscreteSAC"])
def test_estimators_keep_to_allowed_actions_and_store_them(name: str, options: Any) -> None:
    buffer = ReplayBuffer(100)
    make(name).fit_online(OneAllowed(), buffer, **options, **ONLINE)
    assert len(buffer) == 40
    check_stored(buffer)


def test_predictions_and_samples_are_allowed_ones() -> None:
    obs = np.zeros((6, 5), np.float32)
    mask = np.arange(3) == np.arange(6)[:, None] % 3
    for name in ("DQN", "DiscreteAWR", "DiscreteSAC", "DiscreteDecisionTransformer", "DiscreteRandomPolicy"):
        made = make(name)
        made.create_impl((5,), 3)
        for choose in (made.predict, *([] if name in SEQUENTIAL else [made.sample_action])):
            assert choose(obs, action_mask=mask).tolist() == [0, 1, 2, 0, 1, 2]
            assert choose(obs, action_mask=mask[1]).tolist() == [1] * 6
        for wrong in (np.ones(2), mask[:4]):
            with pytest.raises(ValueError, match=r"action_mask has shape \("):
                made.predict(obs, action_mask=wrong)
    continuous = make("SAC")
    continuous.create_impl((5,), 3)
    for choose in (continuous.predict, continuous.sample_action):
        with pytest.raises(TypeError, match=r"action_mask has shape .*, because SAC has continuous actions"):
            choose(obs, action_mask=mask)


@pytest.mark.parametrize("name", ["PPO", "DiscreteDecisionTransformer", "DiscreteRandomPolicy"])
def test_those_without_a_replay_buffer_collect_and_are_scored_by_allowed_actions(name: str) -> None:
    made = make(name, **({"discrete_action": True} if name == "PPO" else {}))
    check_stored(made.collect(OneAllowed(), n_steps=20, show_progress=False))
    assert evaluate_on_environment(OneAllowed(), n_trials=2)(made) == 5.0


def test_ppo_learns_by_allowed_actions() -> None:
    made = make("PPO", discrete_action=True)
    assert made.fit_online(OneAllowed(), n_epochs=1, n_steps_per_epoch=40, **QUIET).impl.n_updates


class Sampler:
    """Chooses as d3rlpy's explorers are asked to."""

    def sample(self, algo: Any, x: Any, step: int) -> int:
        return 0


class MaskedSampler(Sampler):
    """Takes the first of the allowed actions."""

    def sample(self, algo: Any, x: Any, step: int, *, action_mask: Any = None) -> int:
        return int(np.argmax(action_mask))


def test_explorers_of_ones_own_are_told_of_masks_or_refused() -> None:
    buffer = ReplayBuffer(100)
    make("DQN").fit_online(OneAllowed(), buffer, MaskedSampler(), **ONLINE)
    check_stored(buffer)
    with pytest.raises(TypeError, match=r"Sampler.sample has no keyword action_mask, but the environment masks"):
        make("DQN").fit_online(OneAllowed(), None, Sampler(), **ONLINE)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_scores_in_an_environment_are_those_of_allowed_actions(epsilon: float) -> None:
    made = make("DQN")
    made.create_impl((5,), 3)
    assert evaluate_on_environment(OneAllowed(), n_trials=5, epsilon=epsilon)(made) == 5.0


def test_what_takes_no_masks_is_not_scored_where_there_are_some() -> None:
    class Always:
        def predict(self, x: Any) -> Any:
            return np.zeros(len(x), np.int64)

    with pytest.raises(TypeError, match=r"Always.predict has no keyword action_mask, but the environment masks"):
        evaluate_on_environment(OneAllowed())(Always())


def test_a_mask_that_allows_nothing_allows_everything() -> None:
    class NothingAllowed(OneAllowed):
        def step(self, action: Any) -> Any:
            self.taken.add(int(action))
            self.t += 1
            return self._obs(), 1.0, self.t == 5, False, self._info()

        def _info(self) -> dict[str, Any]:
            return {"action_mask": np.zeros(3, np.int8)}

    env = NothingAllowed()
    env.taken = set()
    make("DQN").fit_online(env, random_steps=40, **ONLINE)
    assert env.taken == {0, 1, 2}


def test_demonstrations_hold_masks_also_where_one_is_not_told(tmp_path: Path) -> None:
    class NotAtTheEnd(OneAllowed):
        def _info(self) -> dict[str, Any]:
            return {} if self.t == 5 else super()._info()

    agent = make_agent(n_actions=3)
    buffer = collect_demonstrations(agent, NotAtTheEnd(), None, 2, str(tmp_path))
    batch = buffer.sample_batch(10)
    ends = batch.next_obs[:, 0] == 5
    assert batch.next_action_mask[ends].all() and (batch.next_action_mask[~ends].sum(1) == 1).all()
