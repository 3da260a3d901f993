"""The code blocks of d3rlpy's document of October 2020, after its package's name became this one's.

Numbers are smaller than there, so that it takes seconds; where a line cannot run as it stands, a comment says why.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")
gym = pytest.importorskip("gymnasium")

#: What the blocks leave out; `encoder_params` and `batch_size` are for speed.
FAST: dict[str, Any] = {"encoder_params": {"hidden_units": [16]}, "batch_size": 64}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.random.seed(0)
    torch.manual_seed(0)


def few(dataset: Any, n: int = 12) -> Any:
    """Some of its episodes, of random play, which are short."""
    return sorted(dataset.episodes, key=len)[:n]


def test_getting_started() -> None:  # 1.2 to 1.6
    from sklearn.model_selection import train_test_split

    from pfrl_like.algos import DQN
    from pfrl_like.datasets import get_cartpole
    from pfrl_like.errors import NotFittedError
    from pfrl_like.metrics.scorer import average_value_estimation_scorer, evaluate_on_environment, td_error_scorer

    dataset, env = get_cartpole()
    train_episodes, test_episodes = train_test_split(dataset, test_size=0.2)
    assert len(train_episodes) == 4 * len(test_episodes)

    # if you don't use GPU, set use_gpu=False instead.
    dqn = DQN(use_gpu=False, **FAST)
    evaluate_scorer = evaluate_on_environment(env)
    # The document has scores before `fit`; there are no networks yet.
    with pytest.raises(NotFittedError):
        td_error_scorer(dqn, test_episodes)
    with pytest.raises(NotFittedError):
        evaluate_scorer(dqn)

    dqn.fit(
        train_episodes,
        eval_episodes=test_episodes,
        n_epochs=2,
        scorers={
            "td_error": td_error_scorer,
            "value_scale": average_value_estimation_scorer,
            "environment": evaluate_scorer,
        },
    )
    assert {name: len(scores) for name, scores in dqn.eval_results_.items()} == {
        "td_error": 2, "value_scale": 2, "environment": 2,
    }  # fmt: skip
    td_error = td_error_scorer(dqn, test_episodes)
    rewards = evaluate_scorer(dqn)
    assert td_error <= 0 and rewards >= 8

    # Today `reset` returns a pair.
    observation, _ = env.reset()
    # return actions based on the greedy-policy
    action = dqn.predict([observation])[0]
    # estimate action-values
    value = dqn.predict_value([observation], [action])[0]
    assert action in (0, 1) and np.isfinite(value)

    # save full parameters
    dqn.save_model("dqn.pt")
    # load full parameters; networks have to be alike
    dqn2 = DQN(**FAST)
    dqn2.load_model("dqn.pt")
    assert dqn2.predict_value([observation], [action])[0] == value

    # save the greedy-policy as TorchScript
    dqn.save_policy("policy.pt")
    # save the greedy-policy as ONNX
    pytest.importorskip("onnxscript")
    dqn.save_policy("policy.onnx", as_onnx=True)
    assert Path("policy.pt").exists() and Path("policy.onnx").exists()


@pytest.mark.parametrize("q_func_type", ["mean", "qr", "iqn", "fqf"])
def test_q_functions(q_func_type: str) -> None:  # 3.2
    from pfrl_like.algos import CQL
    from pfrl_like.datasets import get_pendulum

    dataset, _ = get_pendulum()
    cql = CQL(q_func_type=q_func_type, **FAST)  # use Quantile Regression Q function, ...
    cql.fit(dataset.episodes[:1], n_epochs=1, save_metrics=False)
    assert cql.predict(dataset.observations[:3]).shape == (3, 1)


@pytest.mark.slow
def test_preprocessing() -> None:  # 3.5
    from pfrl_like.algos import CQL
    from pfrl_like.dataset import MDPDataset
    from pfrl_like.preprocessing import MinMaxScaler, PixelScaler, StandardScaler

    observations = np.random.random((200, 6))
    actions = 2 * np.random.random((200, 2)) - 1
    rewards, terminals = np.random.random(200), np.arange(200) % 50 == 49
    dataset = MDPDataset(observations, actions, rewards, terminals)
    # choose from ['pixel', 'min_max', 'standard'] or None
    for name in ("pixel", "min_max", "standard"):
        cql = CQL(scaler=name, **FAST)
        # scaler is fitted from the given episodes
        cql.fit(dataset.episodes, n_epochs=1, save_metrics=False)
        # preprocessing is included in TorchScript
        cql.save_policy("policy.pt")
        # you don't need to take care of preprocessing at production
        policy = torch.jit.load("policy.pt")
        action = policy(torch.from_numpy(observations).float())
        assert np.allclose(action, cql.predict(observations), atol=1e-5)
    for scaler in (
        MinMaxScaler(dataset),
        MinMaxScaler(minimum=observations.min(axis=0), maximum=observations.max(axis=0)),
        StandardScaler(dataset),
        StandardScaler(mean=observations.mean(axis=0), std=observations.std(axis=0)),
        PixelScaler(),
    ):
        CQL(scaler=scaler, **FAST).fit(dataset.episodes, n_epochs=1, save_metrics=False)


def test_data_augmentation() -> None:  # 3.6
    from pfrl_like.algos import DiscreteCQL
    from pfrl_like.augmentation.image import RandomShift
    from pfrl_like.dataset import MDPDataset

    observations = np.random.randint(0, 256, (60, 1, 24, 24), dtype=np.uint8)
    dataset = MDPDataset(
        observations, np.random.randint(0, 3, 60), np.random.random(60), np.arange(60) % 20 == 19, discrete_action=True
    )
    small = {"encoder_params": {"filters": [(4, 6, 3)], "feature_size": 8}, "batch_size": 16}
    # choose data augmentation types
    DiscreteCQL(augmentation=["random_shift", "intensity"], n_augmentations=2, **small).fit(
        dataset.episodes, n_epochs=1, save_metrics=False
    )
    random_shift = RandomShift(shift_size=10)
    cql = DiscreteCQL(augmentation=[random_shift, "intensity"], n_augmentations=2, **small)
    cql.fit(dataset.episodes, n_epochs=1, save_metrics=False)
    assert cql.predict(observations[:3]).shape == (3,)


def test_metrics() -> None:  # 3.7
    from sklearn.model_selection import cross_validate, train_test_split

    from pfrl_like.algos import CQL, DQN
    from pfrl_like.datasets import get_cartpole, get_pendulum
    from pfrl_like.metrics.comparer import compare_continuous_action_diff, compare_discrete_action_match
    from pfrl_like.metrics.scorer import evaluate_on_environment, soft_opc_scorer, td_error_scorer

    dataset, env = get_cartpole()
    train_episodes, test_episodes = train_test_split(dataset.episodes[::10], test_size=0.5)
    scorer = soft_opc_scorer(return_threshold=min(episode.compute_return() for episode in test_episodes))
    dqn = DQN(**FAST)
    dqn.fit(train_episodes, n_epochs=1, eval_episodes=test_episodes, scorers={"soft_opc": scorer})
    assert np.isfinite(dqn.eval_results_["soft_opc"]).all()
    scores = cross_validate(
        dqn,
        few(dataset),
        cv=2,
        scoring={"td_error": td_error_scorer, "environment": evaluate_on_environment(env)},
        params={"n_epochs": 1, "save_metrics": False},
    )
    assert (scores["test_environment"] >= 8).all()

    episodes = get_pendulum()[0].episodes[:1]
    cql1, cql2 = (CQL(**FAST).fit(episodes, n_epochs=1, save_metrics=False) for _ in range(2))
    squared_action_diff = compare_continuous_action_diff(cql1)(cql2, episodes)
    assert squared_action_diff < 0
    # The document imports the comparer of continuous actions for a pair of DQN.
    dqn1, dqn2 = (DQN(**FAST).fit(few(dataset), n_epochs=1, save_metrics=False) for _ in range(2))
    assert 0 <= compare_discrete_action_match(dqn1)(dqn2, test_episodes) <= 1


@pytest.mark.slow  # estimators save and load in tests/unit/algos
def test_save_and_load() -> None:  # 3.8
    from pfrl_like.algos import DQN, Estimator
    from pfrl_like.datasets import get_cartpole

    dataset, env = get_cartpole()
    dqn = DQN(**FAST)
    dqn.fit(few(dataset), n_epochs=1)
    # save entire model parameters.
    dqn.save_model("model.pt")
    # load entire model parameters.
    dqn.load_model("model.pt")

    (path,) = Path("d3rlpy_logs").iterdir()
    dqn = DQN.from_json(path / "params.json")
    # ready to load
    dqn.load_model("model.pt")
    # create algorithm with saved configuration
    algo: Any = Estimator.from_json(path / "params.json")
    # ready to load
    algo.load_model(next(path.glob("model_*.pt")))
    # ready to predict
    assert isinstance(algo, DQN) and algo.predict(dataset.observations[:5]).shape == (5,)

    # save greedy-policy as TorchScript
    dqn.save_policy("policy.pt")
    # load greedy-policy only with PyTorch
    policy = torch.jit.load("policy.pt")
    # returns greedy actions
    assert policy(torch.rand(32, 4)).shape == (32,)

    ort = pytest.importorskip("onnxruntime")
    # save greedy-policy as ONNX
    dqn.save_policy("policy.onnx", as_onnx=True)
    # load ONNX policy via onnxruntime
    ort_session = ort.InferenceSession("policy.onnx")
    # observation
    observation = np.random.rand(1, 4).astype(np.float32)
    # returns greedy action
    action = ort_session.run(None, {"input_0": observation})[0]
    assert action == dqn.predict(observation)


def test_logging() -> None:  # 3.9
    from pfrl_like.algos import DQN
    from pfrl_like.datasets import get_cartpole

    episodes = few(get_cartpole()[0])
    dqn = DQN(**FAST)
    # metrics and parameters are saved in `d3rlpy_logs/DQN_YYYYMMDDHHmmss`
    dqn.fit(episodes, n_epochs=1)
    # the directory will be `custom_logs/custom_YYYYMMDDHHmmss`
    dqn.fit(episodes, n_epochs=1, logdir="custom_logs", experiment_name="custom")
    dqn.fit(episodes, n_epochs=1, save_metrics=False)
    dqn.fit(episodes, n_epochs=1, logdir="without", tensorboard=False)
    folders = [next(Path(name).iterdir()).name for name in ("d3rlpy_logs", "custom_logs")]
    assert [name.split("_")[0] for name in folders] == ["DQN", "custom"]
    assert sorted(path.name for path in Path("runs").iterdir()) == sorted(folders)


@pytest.mark.slow
def test_scikit_learn_compatibility() -> None:  # 3.10
    from sklearn.model_selection import GridSearchCV, cross_validate, train_test_split

    from pfrl_like.algos import DQN
    from pfrl_like.context import parallel
    from pfrl_like.datasets import get_cartpole
    from pfrl_like.gpu import Device
    from pfrl_like.metrics import td_error_scorer

    dataset = few(get_cartpole()[0])
    train_episodes, test_episodes = train_test_split(dataset, test_size=0.2)
    dqn = DQN(**FAST)
    dqn.fit(train_episodes, eval_episodes=test_episodes, n_epochs=1, scorers={"td_error": td_error_scorer})

    # `fit_params=` has become `params=` in scikit-learn.
    scores = cross_validate(
        dqn, dataset, cv=3, scoring={"td_error": td_error_scorer}, params={"n_epochs": 1, "save_metrics": False}
    )
    assert len(scores["test_td_error"]) == 3
    gscv = GridSearchCV(
        estimator=dqn, cv=2, param_grid={"learning_rate": [1e-4, 3e-4, 1e-3]}, scoring={"td_error": td_error_scorer},
        refit=False,
    )  # fmt: skip
    gscv.fit(dataset, n_epochs=1, save_metrics=False, verbose=False)
    assert np.isfinite(gscv.cv_results_["mean_test_td_error"]).all()

    with parallel():
        cross_validate(
            dqn, dataset, cv=2, scoring={"td_error": td_error_scorer}, params={"n_epochs": 1, "save_metrics": False}
        )
    assert DQN(use_gpu=True).use_gpu == Device(0) and DQN(use_gpu=Device(1)).use_gpu.get_id() == 1


def test_online_training() -> None:  # 3.11
    from pfrl_like.algos import DQN
    from pfrl_like.online.buffers import ReplayBuffer
    from pfrl_like.online.explorers import LinearDecayEpsilonGreedy

    # setup environment; v0 has left gymnasium
    env = gym.make("CartPole-v1")
    eval_env = gym.make("CartPole-v1")
    # setup algorithm
    dqn = DQN(batch_size=32, learning_rate=2.5e-4, target_update_interval=100, use_gpu=False)
    # setup replay buffer
    buffer = ReplayBuffer(maxlen=1000000, env=env)
    # setup explorers
    explorer = LinearDecayEpsilonGreedy(start_epsilon=1.0, end_epsilon=0.1, duration=10000)
    # start training
    dqn.fit_online(
        env,
        buffer,
        explorer=explorer,  # you don't need this with probabilistic policy algorithms
        eval_env=eval_env,
        n_epochs=2,
        n_steps_per_epoch=100,
        n_updates_per_epoch=10,
    )
    assert len(buffer) == 200 and len(dqn.eval_results_["evaluation"]) == 2


@pytest.mark.slow
def test_model_based_data_augmentation() -> None:  # 3.12
    from sklearn.model_selection import train_test_split

    from pfrl_like.algos import CQL
    from pfrl_like.datasets import get_pendulum
    from pfrl_like.dynamics import MOPO
    from pfrl_like.metrics.scorer import (
        dynamics_observation_prediction_error_scorer,
        dynamics_prediction_variance_scorer,
        dynamics_reward_prediction_error_scorer,
    )

    dataset, _ = get_pendulum()
    train_episodes, test_episodes = train_test_split(dataset.episodes[:4])
    mopo = MOPO(learning_rate=1e-4, use_gpu=False, **FAST)
    # same as algorithms
    mopo.fit(
        train_episodes,
        eval_episodes=test_episodes,
        n_epochs=2,
        scorers={
            "observation_error": dynamics_observation_prediction_error_scorer,
            "reward_error": dynamics_reward_prediction_error_scorer,
            "variance": dynamics_prediction_variance_scorer,
        },
    )
    (path,) = Path("d3rlpy_logs").iterdir()
    # load trained dynamics model
    mopo = MOPO.from_json(path / "params.json")
    mopo.load_model(sorted(path.glob("model_*.pt"))[-1])
    mopo.n_transitions = 40  # tunable parameter
    mopo.horizon = 5  # tunable parameter
    mopo.lam = 1.0  # tunable parameter
    # give mopo as dynamics argument.
    cql = CQL(dynamics=mopo, **FAST)
    cql.fit(train_episodes[:1], n_epochs=1, save_metrics=False)
    assert cql.impl.n_policy_updates == (200 + 40 * 5) // 64
