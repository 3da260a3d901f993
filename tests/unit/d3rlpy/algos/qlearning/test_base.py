"""Training, prediction, files and logs of the algorithms of d3rlpy 2."""

import csv
import dataclasses
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from d3rlpy_parts import CONFIGS, ENCODER, OBS, QUIET, dataset, is_discrete, small, trained

import pfrl_like.d3rlpy as d3rlpy
from pfrl_like.dataset import MDPDataset as LibraryDataset
from pfrl_like.errors import CheckpointError, ExportError, NotFittedError

#: Fields that d3rlpy 2.8 ignores, too.
IGNORED = {
    "BCQConfig": {"update_actor_interval"}, "CRRConfig": {"update_actor_interval", "tau", "target_update_interval"},
    "BEARConfig": {"alpha_learning_rate"}, "PLASConfig": {"imitator_optim_factory"},
    "PLASWithPerturbationConfig": {"imitator_optim_factory"},
}  # fmt: skip


def test_the_implementation_takes_scaled_observations() -> None:
    scalers = d3rlpy.preprocessing.StandardObservationScaler(), d3rlpy.preprocessing.MinMaxActionScaler()
    sac: Any = trained(d3rlpy.algos.SACConfig, observation_scaler=scalers[0], action_scaler=scalers[1])
    scaled = scalers[0].transform(torch.as_tensor(OBS))
    for act in (sac.impl.predict_best_action, sac.impl.inner_predict_best_action):
        actions = scalers[1].reverse_transform(act(scaled).detach())
        np.testing.assert_allclose(actions.numpy(), sac.predict(OBS), atol=1e-6)


@pytest.mark.parametrize("config", CONFIGS)
def test_an_algorithm_learns_acts_and_comes_again_from_its_file(config: Any, tmp_path: Path) -> None:
    algo, path = trained(config, observation_scaler=d3rlpy.preprocessing.StandardObservationScaler()), tmp_path / "a.d3"
    algo.save(str(path))
    loaded: Any = d3rlpy.load_learnable(str(path))
    states = [each.module_states() for each in (algo, loaded)]
    torch.testing.assert_close(states[0], states[1])
    predictions = []
    for each in (algo, loaded):
        torch.manual_seed(0)
        predictions.append(each.predict(OBS))
    np.testing.assert_array_equal(*predictions)
    discrete = is_discrete(config)
    assert predictions[0].shape == ((5,) if discrete else (5, 2))
    assert predictions[0].dtype == (np.int64 if discrete else np.float32)
    assert algo.sample_action(OBS).shape == predictions[0].shape
    if "BC" not in (config.__name__[:2], config.__name__[8:10]):
        assert algo.predict_value(OBS, predictions[0]).shape == (5,)


@pytest.mark.parametrize("config", CONFIGS)
def test_each_field_of_a_config_has_an_effect(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[str] = set()
    found = config.__getattribute__

    def note(self: Any, name: str) -> Any:
        read.add(name)
        return found(self, name)

    algo = small(config).create()
    monkeypatch.setattr(config, "__getattribute__", note)
    algo.fit(dataset(is_discrete(config)), 2, 2, **QUIET)
    fields = {each.name for each in dataclasses.fields(config)}
    unread = fields - read - set(algo.arguments)
    assert unread <= IGNORED.get(config.__name__, set()), unread


def test_epochs_have_their_numbers_logs_and_evaluations(tmp_path: Path) -> None:
    algo, calls = small(d3rlpy.algos.DQNConfig).create(), list[tuple[int, int]]()
    results = algo.fit(
        dataset(True), 7, 3, "run", False, logger_adapter=d3rlpy.logging.FileAdapterFactory(str(tmp_path)),
        show_progress=False, evaluators={"td": d3rlpy.metrics.TDErrorEvaluator()},
        callback=lambda _, epoch, step: calls.append((epoch, step)),
    )  # fmt: skip
    assert [epoch for epoch, _ in results] == [1, 2]
    assert {"loss", "td", "time_step", "time_sample_batch", "time_algorithm_update"} == set(results[0][1])
    assert calls == [(1, 1), (1, 2), (1, 3), (2, 4), (2, 5), (2, 6)]
    rows = [*csv.reader((tmp_path / "run/loss.csv").open())]
    assert [row[:2] for row in rows] == [["1", "3"], ["2", "6"]]
    assert {"model_3.d3", "model_6.d3", "params.json", "q_funcs.0._fc.bias_grad.csv"} <= {
        path.name for path in (tmp_path / "run").iterdir()
    }
    assert json.loads((tmp_path / "run/params.json").read_text())["config"]["type"] == "dqn"
    again = d3rlpy.algos.DQN.from_json(str(tmp_path / "run/params.json"))
    assert again.observation_shape == [3] and algo.grad_step == 6


def test_metrics_by_steps_are_those_of_the_last_log() -> None:
    results = small(d3rlpy.algos.DQNConfig).create().fit(
        dataset(discrete=True), n_steps=8, n_steps_per_epoch=4, logging_steps=2,
        logging_strategy=d3rlpy.LoggingStrategy.STEPS, logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        show_progress=False, evaluators={"after an epoch": lambda algo, data: 1.0},
    )  # fmt: skip
    assert ["after an epoch" in metrics for _, metrics in results] == [False, False]


def test_the_implementation_has_shapes_and_names_of_gradients() -> None:
    impl = trained(d3rlpy.algos.CQLConfig).impl
    assert (impl.observation_shape, impl.action_size, impl.device) == ((3,), 2, "cpu:0")
    names = [name for name, _ in impl.modules.get_gradients() if name.startswith("log_")]
    assert names == ["log_temp._parameter", "log_alpha._parameter"]


def test_fewer_steps_than_an_epoch_warn() -> None:
    algo = small(d3rlpy.algos.DQNConfig).create()
    with pytest.warns(UserWarning, match="no update"):
        assert algo.fit(dataset(True), 5, logger_adapter=d3rlpy.logging.NoopAdapterFactory()) == []


def test_other_kinds_of_actions_and_algorithms_without_networks_are_refused() -> None:
    algo = small(d3rlpy.algos.DQNConfig).create()
    with pytest.raises(AssertionError, match="dataset has continuous actions, but DQN has discrete"):
        algo.fit(dataset(False), 2, 2)
    with pytest.raises(NotFittedError):
        algo.predict(OBS)
    with pytest.raises(NotImplementedError, match="no algorithm"):
        d3rlpy.ope.FQEConfig().create()
    with pytest.raises(ValueError, match="batch axis"):
        trained(d3rlpy.algos.DQNConfig).predict(OBS[0])
    with pytest.raises(TypeError, match="evaluators.*expected a function"):
        algo.fit(dataset(True), 2, 2, evaluators={"none": None}, **QUIET)


@pytest.mark.parametrize("options", [{"n_critics": 0}, {"target_update_interval": 0}])
def test_numbers_out_of_range_are_refused_by_name(options: dict[str, int]) -> None:
    for config in (d3rlpy.algos.CRRConfig, d3rlpy.algos.DiscreteSACConfig, d3rlpy.algos.DQNConfig):
        with pytest.raises(ValueError, match=f"{[*options][0]} is 0"):
            small(config, **options).create().create_impl((3,), 2)


def test_values_need_one_action_or_as_many_as_observations() -> None:
    algo = trained(d3rlpy.algos.DQNConfig)
    with pytest.raises(ValueError, match="action has 2 rows, but x has 5 observations"):
        algo.predict_value(OBS, np.zeros(2, int))
    np.testing.assert_array_equal(algo.predict_value(OBS, np.ones(1)), algo.predict_value(OBS, np.ones(5)))


@pytest.mark.parametrize(("name", "value"), [("buffer", []), ("explorer", d3rlpy.algos.NormalNoise)])
def test_a_buffer_or_explorer_of_another_kind_is_refused(name: str, value: Any) -> None:
    algo = small(d3rlpy.algos.DQNConfig).create()
    with pytest.raises(TypeError, match=f"^{name} is .*, expected an object with the method"):
        algo.fit_online(gymnasium.make("CartPole-v1"), n_steps=2, **{name: value})


def test_a_list_of_episodes_is_refused_with_the_call_that_makes_a_dataset() -> None:
    with pytest.raises(TypeError, match="dataset is list, .*call create_infinite_replay_buffer"):
        small(d3rlpy.algos.DQNConfig).create().fit(dataset(True).episodes, 2, 2)


def test_a_dataset_of_the_library_is_converted() -> None:
    rewards = np.array([0.0, 1.0, 2.0], np.float32)
    data = LibraryDataset(
        OBS[:3], np.array([0, 1, 1]), rewards, np.array([0, 0, 1]), discrete_action=True, reward_convention="same_row"
    )
    algo = small(d3rlpy.algos.DQNConfig, batch_size=2).create()
    algo.fit(data, 1, 1, **QUIET)
    assert algo.action_size == 2 and algo.grad_step == 1


def test_fit_online_learns_after_a_minibatch_and_collect_only_acts(tmp_path: Path) -> None:
    env, algo = gymnasium.make("CartPole-v1"), small(d3rlpy.algos.DQNConfig).create()
    env.reset(seed=0)
    buffer = d3rlpy.dataset.create_fifo_replay_buffer(50, env=env)
    algo.fit_online(
        env, buffer, d3rlpy.algos.ConstantEpsilonGreedy(0.5), n_steps=40, n_steps_per_epoch=20, update_start_step=20,
        eval_env=gymnasium.make("CartPole-v1"), eval_n_trials=1, show_progress=False,
        logger_adapter=d3rlpy.logging.FileAdapterFactory(str(tmp_path)),
    )  # fmt: skip
    assert algo.grad_step == 20
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("DQN_online_") and (folder / "evaluation.csv").exists()
    assert (folder / "time_step.csv").exists()
    policy: Any = d3rlpy.algos.DiscreteRandomPolicyConfig().create()
    collected = policy.collect(env, n_steps=30, show_progress=False)
    assert collected.transition_count >= 28
    with pytest.raises(NotImplementedError, match="has no network: call predict"):
        policy.impl.predict_best_action(torch.as_tensor(OBS))


def test_parameters_and_states_of_optimisers_are_copied_and_forgotten() -> None:
    sac, cql = trained(d3rlpy.algos.SACConfig), trained(d3rlpy.algos.CQLConfig)
    sac.copy_policy_from(cql)
    sac.copy_q_function_from(cql)
    sac.copy_policy_optim_from(cql)
    sac.copy_q_function_optim_from(cql)
    np.testing.assert_array_equal(sac.predict(OBS), cql.predict(OBS))
    action = np.zeros((5, 2), np.float32)
    np.testing.assert_array_equal(sac.predict_value(OBS, action.astype(float)), cql.predict_value(OBS, action))
    ours, theirs = (each.impl.modules.actor_optim.optim.state_dict() for each in (sac, cql))
    torch.testing.assert_close(ours["state"], theirs["state"])
    assert ours["param_groups"][0]["lr"] == 3e-4
    sac.reset_optimizer_states()
    assert not sac.impl.modules.actor_optim.optim.state
    with pytest.raises(NotImplementedError, match="DQN has no policy"):
        trained(d3rlpy.algos.DQNConfig).copy_policy_from(sac)
    with pytest.raises(ValueError, match="expected a GaussianPolicy"):
        sac.copy_policy_from(trained(d3rlpy.algos.TD3Config))


def test_the_implementation_shows_shapes_networks_and_optimisers() -> None:
    sac = trained(d3rlpy.algos.SACConfig)
    impl, parts = sac.impl, sac.impl.modules
    assert (impl.observation_shape, impl.action_size, impl.device) == ((3,), 2, "cpu:0")
    assert (impl.policy, impl.q_function) == (parts.policy, parts.q_funcs)
    assert (impl.policy_optim, impl.q_function_optim) == (parts.actor_optim.optim, parts.critic_optim.optim)
    with pytest.raises(NotImplementedError, match="BC has no Q-function"):
        _ = trained(d3rlpy.algos.BCConfig).impl.q_function
    with pytest.raises(NotImplementedError, match="DQN has no policy"):
        _ = trained(d3rlpy.algos.DQNConfig).impl.policy


def test_fit_calls_an_update_that_replaces_the_methods() -> None:
    algo, sizes = small(d3rlpy.algos.DQNConfig).create(), []
    algo.update = lambda batch: {"loss": float(sizes.append(len(batch)) or 0)}
    algo.fit(dataset(True), 4, 2, logger_adapter=d3rlpy.logging.NoopAdapterFactory(), show_progress=False)
    assert sizes == [8, 8, 8, 8]


@pytest.mark.parametrize("normalises", [False, True])
def test_the_exported_policy_acts_equally(normalises: bool, tmp_path: Path) -> None:
    encoder = d3rlpy.models.VectorEncoderFactory([8], use_batch_norm=normalises)
    scaler = d3rlpy.preprocessing.MinMaxActionScaler()
    algo = trained(d3rlpy.algos.TD3Config, action_scaler=scaler, actor_encoder_factory=encoder)
    algo.save_policy(str(tmp_path / "policy.pt"))
    exported: Any = torch.jit.load(str(tmp_path / "policy.pt"))  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(exported(torch.from_numpy(OBS)).numpy(), algo.predict(OBS), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="ends with .pt or .onnx"):
        algo.save_policy("policy.txt")


@pytest.mark.parametrize("error", [5e-4, 5e-3])
def test_exported_actions_differ_by_a_thousandth_at_most(error: float, tmp_path: Path) -> None:
    algo = trained(d3rlpy.algos.TD3Config)
    algo.impl.policy._fc.register_forward_hook(lambda *args: args[-1] + error * torch.jit.is_tracing())
    with nullcontext() if error < 1e-3 else pytest.raises(ExportError, match="different actions"):
        algo.save_policy(str(tmp_path / "policy.pt"))


def test_metrics_change_no_statistics_and_two_backups_are_refused() -> None:
    encoder = d3rlpy.models.VectorEncoderFactory([8], use_batch_norm=True)
    algo = trained(d3rlpy.algos.TD3PlusBCConfig, n_steps=2, actor_encoder_factory=encoder)
    counts = [each for name, each in algo.impl.agent.policy.named_buffers() if "tracked" in name]
    assert [*map(int, counts)] == [1]  # one update of the policy
    with pytest.raises(ValueError, match="expected at most one"):
        trained(d3rlpy.algos.CQLConfig, soft_q_backup=True, max_q_backup=True)


def test_a_model_of_another_algorithm_is_refused(tmp_path: Path) -> None:
    trained(d3rlpy.algos.SACConfig).save_model(str(tmp_path / "model.pt"))
    with pytest.raises(CheckpointError, match="modules are"):
        trained(d3rlpy.algos.TD3Config).load_model(str(tmp_path / "model.pt"))


@pytest.mark.parametrize("discrete", [True, False])
def test_fitted_q_evaluation_learns_the_value_of_an_algorithms_actions(discrete: bool) -> None:
    algo = trained(d3rlpy.algos.DQNConfig if discrete else d3rlpy.algos.TD3Config)
    config = d3rlpy.ope.FQEConfig(batch_size=8, encoder_factory=ENCODER, n_critics=2)
    fqe = (d3rlpy.ope.DiscreteFQE if discrete else d3rlpy.ope.FQE)(algo, config)
    fqe.fit(dataset(discrete), 4, 2, **QUIET)
    np.testing.assert_array_equal(fqe.predict(OBS), algo.predict(OBS))
    assert fqe.predict_value(OBS, fqe.predict(OBS)).shape == (5,) and fqe.algo is algo
