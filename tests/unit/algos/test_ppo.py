"""The estimator of PPO, which learns in an environment."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from estimator_parts import QUIET, Bounded, assert_same_parameters, vectors

from pfrl_like import algos, load_learnable
from pfrl_like.envs.abc import ABC
from pfrl_like.utils import set_random_seed

FEW: dict[str, Any] = {"update_interval": 20, "batch_size": 10, "epochs": 2, "encoder_params": {"hidden_units": [8]}}
OBS = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)


def trained(env: Any, n_steps: int = 60, **options: Any) -> Any:
    set_random_seed(0)
    hyperparameters = {name: options.pop(name) for name in options.keys() & algos.PPO.defaults().keys()}
    online = {"n_steps_per_epoch": 30, **QUIET, **options}
    return algos.PPO(**FEW | hyperparameters).fit_online(env, n_steps=n_steps, **online)


def test_it_updates_after_every_interval_and_the_same_seed_gives_the_same_numbers() -> None:
    made, again = (trained(ABC(size=3, discrete=True), discrete_action=True) for _ in range(2))
    assert made.impl.n_updates == 3 * 2 * 2  # rollouts, epochs, minibatches
    assert_same_parameters(made, again)


def test_continuous_actions_are_unscaled_and_clipped() -> None:
    env = Bounded()
    made = trained(env, action_scaler="min_max", reward_scaler="multiply")
    assert all(env.action_space.contains(action) for action in env.actions)
    assert len({tuple(action) for action in env.actions}) > 30
    actions = made.predict(OBS)
    assert actions.shape == (7, 2) and not np.array_equal(made.sample_action(OBS), actions)
    assert 1 < actions.mean() < 4


def test_epochs_are_logged_saved_and_evaluated() -> None:
    calls: list[Any] = []
    made = algos.PPO(**FEW)
    options = {**QUIET, "save_metrics": True, "tensorboard": False, "logdir": "logs"}
    made.fit_online(
        Bounded(), n_epochs=2, n_steps_per_epoch=40, eval_env=Bounded(), experiment_name="run", with_timestamp=False,
        callback=lambda algo, epoch, step: calls.append((epoch, step)), **options,
    )  # fmt: skip
    assert calls == [(0, 40), (1, 80)] and len(made.eval_results_["evaluation"]) == 2
    metrics = np.genfromtxt("logs/run/metrics.csv", delimiter=",", names=True)
    assert np.isfinite(metrics["critic_loss"]).all() and np.isfinite(metrics["rollout_return"]).all()
    again = load_learnable("logs/run/model_80.pt")
    assert np.array_equal(again.predict(OBS), made.predict(OBS))


def test_epochs_may_end_between_updates() -> None:
    made = trained(Bounded(), n_steps=50, save_metrics=True, tensorboard=False, logdir="logs", with_timestamp=False)
    assert len(made.impl.state_dict()["state"][""]["rollout"]["env"]) == 10
    again = load_learnable("logs/PPO_online/model_50.pt")
    assert again.impl.n_updates == made.impl.n_updates and not len(again.impl._rollout)
    assert_same_parameters(again, made)
    again.fit_online(Bounded(), n_steps=20, **QUIET)
    assert again.impl.n_updates == made.impl.n_updates + 4


def test_an_interrupted_training_leaves_what_it_had_and_continues() -> None:
    def stop(algo: Any, epoch: int, step: int) -> None:
        if step == 60:
            raise KeyboardInterrupt

    made = algos.PPO(**FEW)
    online = {**QUIET, "save_metrics": True, "logdir": "logs", "experiment_name": "run", "with_timestamp": False}
    with pytest.raises(KeyboardInterrupt):
        made.fit_online(Bounded(), n_epochs=3, n_steps_per_epoch=30, tensorboard=False, callback=stop, **online)
    assert np.genfromtxt("logs/run/metrics.csv", delimiter=",", names=True)["step"].tolist() == [30, 60]
    for again in (made, load_learnable("logs/run/model_60.pt")):
        before = again.impl.n_updates
        again.fit_online(Bounded(), n_steps=40, **QUIET)
        assert again.impl.n_updates == before + 2 * 4


def test_losses_are_means_over_the_updates_of_an_epoch() -> None:
    made = algos.PPO(**FEW | {"update_interval": 30, "batch_size": 1, "epochs": 4})  # more than the agent's window
    made.create_impl((4,), 2)
    losses, learn = list[Any](), made.impl.learn

    def recorded(episodes: Any) -> Any:
        result = learn(episodes)
        losses.append(result[1]["value_loss"].mean().item())
        return result

    made.impl.learn = recorded
    online = {**QUIET, "save_metrics": True, "logdir": "logs", "experiment_name": "run", "with_timestamp": False}
    made.fit_online(Bounded(), None, n_epochs=2, n_steps_per_epoch=60, tensorboard_dir="boards", **online)
    metrics = np.genfromtxt("logs/run/metrics.csv", delimiter=",", names=True)
    np.testing.assert_allclose(metrics["critic_loss"], np.reshape(losses, (2, 2)).mean(1), rtol=1e-5)
    assert not importlib.util.find_spec("tensorboard") or Path("boards/runs/run").is_dir()


def test_training_continues_with_what_is_set() -> None:
    made = trained(Bounded())
    made.set_params(gamma=0.5, learning_rate=0.25).fit_online(Bounded(), n_steps=20, **QUIET)
    assert made.impl.gamma == 0.5 and made.impl.optimizer.param_groups[0]["lr"] == 0.25


def test_recorded_data_are_refused_and_so_is_what_it_cannot_do() -> None:
    with pytest.raises(NotImplementedError, match="PPO does not learn from recorded data: use fit_online"):
        algos.PPO().fit(vectors(False))
    for options in ({"n_frames": 2}, {"n_augmentations": 2}, {"augmentation": ["single_amplitude_scaling"]}):
        with pytest.raises(ValueError, match=f"{next(iter(options))} is .*, but PPO needs"):
            trained(Bounded(), **options)
    with pytest.raises(TypeError, match="buffer is 3, but PPO learns only from steps of its own policy"):
        algos.PPO().fit_online(Bounded(), 3)
    with pytest.raises(NotImplementedError, match="PPO has no values of actions"):
        algos.PPO().predict_value(OBS, OBS)
    with pytest.raises(TypeError, match="PPO needs an environment whose actions are a Box"):
        trained("CartPole-v1")
    with pytest.raises(TypeError, match="no hyperparameter 'clip_epsilon'; the nearest is 'clip_eps'"):
        algos.PPO(clip_epsilon=0.1)
