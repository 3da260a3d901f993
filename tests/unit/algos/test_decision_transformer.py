"""Estimators of Decision Transformers: sequences, and acting for whole episodes."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from estimator_parts import QUIET, built, fitted, make, vectors

from pfrl_like import algos
from pfrl_like.agents.offline.decision_transformer import returns_to_go
from pfrl_like.algos.fitting.minibatches import TrainingData, batch_for
from pfrl_like.dataset import TransitionMiniBatch
from pfrl_like.dataset.selection import SelectedSequences
from pfrl_like.errors import ExportError
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.metrics import evaluate_on_environment
from pfrl_like.preprocessing import MinMaxActionScaler


class OneReward(gymnasium.Env[Any, Any]):
    """Pays 1 in each of the three steps of an episode."""

    observation_space = gymnasium.spaces.Box(-9, 9, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, **_: Any) -> Any:
        self.n = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> Any:
        self.n += 1
        return np.zeros(4, np.float32), 1.0, self.n == 3, False, {}


NAMES = ["DecisionTransformer", "DiscreteDecisionTransformer"]
OBS = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)


def test_defaults_are_those_of_d3rlpy() -> None:
    names = ("batch_size", "learning_rate", "context_size", "num_heads", "num_layers")
    defaults = [[getattr(algos, kind).defaults()[name] for name in names] for kind in NAMES]
    assert defaults == [[64, 1e-4, 20, 1, 3], [128, 6e-4, 20, 8, 6]]


@pytest.mark.parametrize("name", NAMES)
def test_an_epoch_has_a_sequence_for_each_transition(name: str) -> None:
    data, seen = vectors(name.startswith("Discrete")), list[Any]()
    made = built(name, batch_size=24)
    made.impl.augment = lambda batch: [seen.append(batch), batch][1]  # type: ignore[func-returns-value]
    made.fit(data, n_epochs=1, **QUIET)
    first = torch.cat([batch.obs[: len(batch.lengths)] for batch in seen])
    assert len(seen) == 5 and len(first.unique(dim=0)) == 120
    assert all(batch.lengths.max() == 3 and len(batch) == batch.lengths.sum() for batch in seen)


@pytest.mark.parametrize("name", NAMES)
def test_linked_transitions_are_the_same_sequences(name: str) -> None:
    data, agent = vectors(name.startswith("Discrete")), built(name).impl
    episodes = data.episodes[:2]
    numbers = np.array([0, 18, 25])  # the second one is cut off by the end of its episode
    steps = TrainingData(episodes, 3, 1).source.transitions()
    one = SelectedSequences(episodes, 3).batch(numbers, 1.0, "cpu", continuation=np.inf)
    transitions = data.sample(3)
    transitions = type(transitions)([steps[number] for number in numbers])
    other = batch_for(agent, transitions, agent.policy.discrete)
    assert one.lengths.tolist() == other.lengths.tolist() == [3, 3, 2]
    for batch in (one, other):
        assert torch.equal(batch.obs[[0, 3, 6]], torch.from_numpy(np.stack([s.observation for s in steps[0:3]])))
    assert torch.equal(one.action, other.action)
    torch.testing.assert_close(returns_to_go(one), returns_to_go(other))


@pytest.mark.parametrize("name", NAMES)
def test_a_wrapper_acts_like_the_agent(name: str) -> None:
    made = fitted(name, target_return=5.0)
    wrapper, agent = made.as_stateful_wrapper(5.0), made.impl
    for _ in range(2):
        with agent.eval_mode():
            expected = [agent.act(OBS[0])]
            for obs, reward in zip(OBS[1:], [1.0, 2.0, 0.0, 4.0], strict=True):
                agent.observe(obs, reward, False, False)
                expected.append(agent.act(obs))
            agent.stop_episode()
        rewards = np.array([9.0, 1.0, 2.0, 0.0, 4.0])  # float64, as those of Pendulum
        found = [wrapper.predict(obs, reward) for obs, reward in zip(OBS, rewards, strict=True)]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        wrapper.reset()
    assert made.predict(OBS[:1])[0] == pytest.approx(expected[0])


def returns_to_go_of(name: str, act: Any, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The returns-to-go that the network is given for the newest steps, of a target return of 5."""
    made, seen = built(name, target_return=5.0), list[float]()
    forward = made.impl.policy.forward

    def recorded(returns: Any, *args: Any) -> Any:
        seen.append(float(returns[0, -1]))
        return forward(returns, *args)

    monkeypatch.setattr(made.impl.policy, "forward", recorded)
    act(made)
    return seen


@pytest.mark.parametrize("explorer", [None, ConstantEpsilonGreedy(1.0, lambda: 0)])
def test_it_collects_and_is_scored_in_whole_episodes(explorer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def collect(made: Any) -> None:
        made.collect(OneReward(), explorer=explorer, n_steps=7, show_progress=False)

    def score(made: Any) -> None:
        evaluate_on_environment(OneReward(), n_trials=2, epsilon=0.0 if explorer is None else 1.0)(made)

    for act, n in ((collect, 7), (score, 6)):
        seen = returns_to_go_of("DiscreteDecisionTransformer", act, monkeypatch)
        assert seen[-n:] == [5.0, 4.0, 3.0, 5.0, 4.0, 3.0, 5.0][:n]


def test_actions_that_explorers_choose_are_those_of_the_episode() -> None:
    scaler = MinMaxActionScaler(minimum=[0.0, 0.0], maximum=[8.0, 8.0])
    wrapper = built("DecisionTransformer", action_scaler=scaler).as_stateful_wrapper(1.0)
    wrapper.predict(OBS[0], 0.0)
    wrapper.set_action(np.array([5.0, 2.0], np.float32))
    assert wrapper._context.steps[0][-1][2].tolist() == [0.25, -0.5]


@pytest.mark.parametrize("name", NAMES)
def test_what_needs_one_step_is_refused(name: str) -> None:
    made = built(name)
    with pytest.raises(ExportError, match="depend on several steps: save_model, and act with as_stateful_wrapper"):
        made.save_policy("policy.pt")
    steps = vectors(made.discrete_action).sample(8).transitions
    with pytest.raises(ValueError, match="batch has n_steps 4, but .* needs 1"):
        made.update(TransitionMiniBatch(steps, n_steps=4))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"max_timestep": 1000}, TypeError, "positions are indices in the sequence"),
        ({"attn_dropout": 0.2}, TypeError, "use dropout"),
        ({"contxt_size": 3}, TypeError, "the nearest is 'context_size'"),
        ({"num_heads": 3}, ValueError, "num_heads is 3, expected a divisor of 16"),
        ({"target_return": float("nan")}, ValueError, "target_return is nan, expected a finite number"),
        ({"dropout": 2.0}, ValueError, "dropout is 2.0"),
        ({"n_frames": 2}, ValueError, "n_frames is 2, but DecisionTransformer needs 1"),
        ({"reward_scaler": "multiply"}, ValueError, "reward_scaler is .*: use return_scale"),
    ],
)
def test_what_a_transformer_cannot_take_is_refused(options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make("DecisionTransformer", **options).fit(vectors(False), n_epochs=1, **QUIET)


def test_it_does_not_learn_in_an_environment() -> None:
    with pytest.raises(NotImplementedError, match="does not learn in an environment: use fit"):
        make("DiscreteDecisionTransformer").fit_online("CartPole-v1")
