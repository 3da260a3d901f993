"""Algorithms of d3rlpy 2 do what agents do: compilation, several processes, export, continued training, masks."""

import copy
import dataclasses
import importlib
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from d3rlpy_parts import CONFIGS, OBS, QUIET, dataset, is_discrete, small, trained
from process_group import in_two_processes
from torch import nn

import pfrl_like.d3rlpy as d3rlpy
from pfrl_like import algos, metrics
from pfrl_like.batch import concatenate_batches
from pfrl_like.d3rlpy.dataset.library import batch_of
from pfrl_like.export.policy import Draws, draws_of

P = d3rlpy.preprocessing
#: All configs, of which the default run has two.
SOME = [
    config
    if config in (d3rlpy.algos.CRRConfig, d3rlpy.algos.DQNConfig)
    else pytest.param(config, marks=pytest.mark.slow)
    for config in CONFIGS
]


def updated(config: Any, n_steps: int = 6, **options: Any) -> Any:
    torch.manual_seed(0)
    np.random.seed(0)
    return trained(config, n_steps, **options)


# Compilation


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS)
def test_compiled_updates_are_those_of_eager_mode(config: Any) -> None:
    eager, compiled = (updated(config, compile_graph=each) for each in (False, True))
    assert compiled.compiled and compiled.impl.agent._compiled is not None and eager.impl.agent._compiled is None
    states = [each.module_states() for each in (compiled, eager)]
    torch.testing.assert_close(states[0], states[1], rtol=1e-4, atol=1e-5)


@pytest.mark.slow  # the compiler is imported
@pytest.mark.parametrize(
    "options",
    [{"clip_grad_norm": 1.0}, {"lr_scheduler_factory": d3rlpy.optimizers.CosineAnnealingLRFactory(10)}],
    ids=lambda options: next(iter(options)),
)
def test_what_a_compiled_update_does_not_do_is_refused(options: Any) -> None:
    factory = d3rlpy.optimizers.AdamFactory(**options)
    algo = small(d3rlpy.algos.DQNConfig, optim_factory=factory, compile_graph=True).create()
    with pytest.raises(TypeError, match="clip gradients or to schedule learning rates: remove them"):
        algo.create_impl((3,), 2)


# Processes


JOINED = (d3rlpy.algos.SACConfig, d3rlpy.algos.DiscreteCQLConfig, d3rlpy.algos.IQLConfig)


def of_group(rank: int) -> dict[str, Any]:
    found: dict[str, Any] = {"fit": [], "update": []}
    for config in JOINED:
        torch.manual_seed(rank)
        algo, data = small(config).create("cpu", enable_ddp=True), dataset(is_discrete(config))
        algo.build_with_dataset(data)
        torch.manual_seed(5)
        np.random.seed(rank)
        algo.fit(data, 4, 2, config.__name__, False, show_progress=False)
        found["fit"].append(copy.deepcopy(algo.module_states()))
        algo.update(data.sample_transition_batch(8))
        found["update"].append(algo.module_states())
    env, online = gymnasium.make("CartPole-v1"), small(d3rlpy.algos.DQNConfig, batch_size=4).create(enable_ddp=True)
    env.reset(seed=rank)  # episodes end at different steps
    online.fit_online(env, n_steps=30, n_steps_per_epoch=10, **QUIET)
    return found | {"online": (online.module_states(), online.grad_step)}


@pytest.mark.slow
def test_two_processes_learn_what_one_learns_from_both_minibatches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = in_two_processes(of_group)
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    for i, config in enumerate(JOINED):
        torch.manual_seed(0)
        alone, data = small(config).create(), dataset(is_discrete(config))
        alone.build_with_dataset(data)
        torch.manual_seed(5)
        streams = [np.random.RandomState(rank) for rank in range(2)]
        for _ in range(4):
            drawn = [stream.randint(data.transition_count, size=8) for stream in streams]
            alone.learn(concatenate_batches([batch_of(data, index, alone.gamma) for index in drawn]))
        torch.testing.assert_close(first["fit"][i], alone.module_states(), rtol=1e-5, atol=1e-5)
        logs = tmp_path / f"d3rlpy_logs/{config.__name__}"  # of one process
        assert len((logs / "time_step.csv").read_text().splitlines()) == 2
        assert sorted(path.name for path in logs.glob("model*")) == ["model_2.d3", "model_4.d3"]


def test_processes_that_no_group_joins_are_refused() -> None:
    algo, data = small(d3rlpy.algos.DQNConfig).create(enable_ddp=True), dataset(True)
    algo.build_with_dataset(data)
    for train in (lambda: algo.fit(data, 2, 2, **QUIET), lambda: algo.update(data.sample_transition_batch(8))):
        with pytest.raises(RuntimeError, match="there is no process group"):
            train()


# Export


@dataclasses.dataclass
class Concatenation(d3rlpy.models.EncoderFactory, type_name="concatenation_of_features"):
    """An encoder of tuples."""

    def create(self, observation_shape: Any) -> nn.Module:
        return Concatenated(sum(size for (size,) in observation_shape))

    def create_with_action(self, observation_shape: Any, action_size: int, discrete_action: bool = False) -> nn.Module:
        return Concatenated(sum(size for (size,) in observation_shape) + action_size)


class Concatenated(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.layer = nn.Linear(size, 8)

    def forward(self, x: Any, *action: Any) -> Any:
        return self.layer(torch.cat([*x, *action], 1)).relu()


def exported_actions(path: Path, parts: list[np.ndarray]) -> Any:
    if path.suffix == ".pt":
        return torch.jit.load(path)(*map(torch.from_numpy, parts)).numpy()  # type: ignore[no-untyped-call]
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(path.read_bytes())
    return session.run(None, {f"input_{i}": part for i, part in enumerate(parts)})[0]


def check_export(algo: Any, path: Path, parts: list[np.ndarray]) -> None:
    """The file acts as `predict`, if both use the numbers that the file contains in place of random ones."""
    algo.save_policy(str(path))
    tensors = [torch.from_numpy(part) for part in parts]
    obs = tensors[0] if len(parts) == 1 else tuple(tensors)

    def rows(n: int) -> Any:
        return tensors[0][:n] if len(parts) == 1 else tuple(part[:n] for part in tensors)

    draws = draws_of(lambda n: algo.greedy_tensor(rows(n)))
    values = [(draw, draw.fixed()) for draw in draws]
    with Draws([draw.as_drawn(each.expand(len(parts[0]), *each.shape[1:])) for draw, each in values]):
        expected = algo.greedy_tensor(obs).numpy()
    np.testing.assert_allclose(exported_actions(path, parts), expected, rtol=1e-5, atol=1e-5)
    if not draws:
        x = parts[0] if len(parts) == 1 else parts
        np.testing.assert_allclose(algo.predict(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("config", SOME)
@pytest.mark.parametrize("ending", [".pt", pytest.param(".onnx", marks=pytest.mark.slow)])
def test_an_exported_policy_acts_as_predict(config: Any, ending: str, tmp_path: Path) -> None:
    scalers = {"observation_scaler": P.StandardObservationScaler()}
    scalers |= {} if is_discrete(config) else {"action_scaler": P.MinMaxActionScaler()}
    check_export(trained(config, 2, **scalers), tmp_path / f"policy{ending}", [OBS])


@pytest.mark.parametrize("name", ["QR", "IQN"])
@pytest.mark.parametrize("ending", [".pt", pytest.param(".onnx", marks=pytest.mark.slow)])
def test_an_exported_policy_of_quantiles_takes_batches_of_any_size(name: str, ending: str, tmp_path: Path) -> None:
    factory = getattr(d3rlpy.models, f"{name}QFunctionFactory")(n_quantiles=5)
    check_export(trained(d3rlpy.algos.DQNConfig, 2, q_func_factory=factory), tmp_path / f"policy{ending}", [OBS])


@pytest.mark.parametrize(
    "config",
    [d3rlpy.algos.DQNConfig, *(pytest.param(each, marks=pytest.mark.slow) for each in JOINED), d3rlpy.algos.BCQConfig],
)
@pytest.mark.parametrize("ending", [".pt", pytest.param(".onnx", marks=pytest.mark.slow)])
def test_a_policy_of_tuples_has_an_input_for_each_part(config: Any, ending: str, tmp_path: Path) -> None:
    whole = dataset(is_discrete(config))
    parts = [np.concatenate([episode.observations for episode in whole.episodes])[:, rows] for rows in ([0, 1], [2])]
    actions, rewards = (
        np.concatenate([getattr(episode, name) for episode in whole.episodes]) for name in ("actions", "rewards")
    )
    data = d3rlpy.dataset.MDPDataset(parts, actions, rewards, np.arange(40) % 20 == 19)
    encoders = {each.name: Concatenation() for each in dataclasses.fields(config) if "encoder_factory" in each.name}
    scaler = P.TupleObservationScaler([P.StandardObservationScaler(), P.MinMaxObservationScaler()])
    algo = config(batch_size=8, observation_scaler=scaler, **encoders).create()
    algo.fit(data, 2, 2, **QUIET)
    check_export(algo, tmp_path / f"policy{ending}", [part[:5] for part in parts])


def test_a_random_policy_is_not_exported() -> None:
    policy = d3rlpy.algos.RandomPolicyConfig().create()
    policy.create_impl((3,), 2)
    with pytest.raises(NotImplementedError, match="RandomPolicy has no network to export"):
        policy.save_policy("policy.pt")


# Training that continues, and masks


@pytest.mark.parametrize("config", SOME)
def test_training_continues_from_a_file_as_if_it_had_not_stopped(config: Any, tmp_path: Path) -> None:
    data, scaler = dataset(is_discrete(config)), {"reward_scaler": P.StandardRewardScaler()}
    whole = updated(config, 2, **scaler)
    whole.save(str(tmp_path / "stopped.d3"))
    again: Any = d3rlpy.load_learnable(str(tmp_path / "stopped.d3"))
    again.set_grad_step(whole.grad_step)
    for each in (whole, again):
        d3rlpy.seed(1)
        each.fit(data, 3, 3, **QUIET)
    torch.testing.assert_close(again.module_states(), whole.module_states(), rtol=0, atol=0)


def test_masks_restrict_the_agents_actions_and_targets() -> None:
    algo, data = updated(d3rlpy.algos.DQNConfig), dataset(True)
    greedy = algo.predict(OBS)
    mask = np.ones((5, 3), bool)
    mask[range(5), greedy] = False
    agent, obs = algo.impl.agent, torch.from_numpy(OBS)
    actions = agent.greedy_actions(obs, torch.from_numpy(mask))[0].numpy()
    values = np.stack([algo.predict_value(OBS, np.full(5, action)) for action in range(3)], 1)
    assert np.array_equal(actions, np.where(mask, values, -np.inf).argmax(1))
    with agent.eval_mode():
        assert np.array_equal(agent.batch_act([*OBS], action_mask=mask), actions)
    batch = batch_of(data, np.arange(8), 0.9)
    one = torch.zeros(8, 3, dtype=torch.bool)
    one[:, 2] = True
    before, losses = algo.module_states(), []
    before = {name: {key: value.clone() for key, value in before[name].items()} for name in ("q_funcs", "targ_q_funcs")}
    for next_mask in (None, one):
        for name, state in before.items():
            getattr(algo.impl.modules, name).load_state_dict(state)
        losses.append(algo.learn(batch.replace(next_action_mask=next_mask))["loss"])
    assert losses[0] != losses[1]


# Arguments


def test_algorithms_that_do_not_exist_name_others() -> None:
    for name in ("PRDC", "PRDCConfig", "TACR", "TACRConfig"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}': use TD3PlusBC"):
            getattr(d3rlpy.algos, name)
    with pytest.raises(ImportError, match="use TD3PlusBC or ReBRAC"):
        from pfrl_like.d3rlpy.algos import PRDCConfig  # noqa: F401


@pytest.mark.parametrize("config", [d3rlpy.algos.DQNConfig, d3rlpy.algos.TD3Config], ids=str)
def test_wrong_shapes_are_named_with_the_expected_ones(config: Any) -> None:
    algo, discrete = trained(config), is_discrete(config)
    actions = algo.predict(OBS)
    for function in (algo.predict, algo.sample_action, lambda x: algo.predict_value(x, actions)):
        with pytest.raises(ValueError, match=r"x has observations of shape \(2,\), expected \(3,\)"):
            function(OBS[:, :2])
    wrong = np.array([0, 1, 2, 3, 0]) if discrete else actions[:, :1]
    expected = "index 3, expected 0 to 2" if discrete else r"action has shape \(5, 1\), expected \(5, 2\)"
    with pytest.raises(ValueError, match=expected):
        algo.predict_value(OBS, wrong)


@pytest.mark.parametrize("config", [d3rlpy.algos.DQNConfig, d3rlpy.algos.TD3Config], ids=str)
def test_an_algorithm_made_of_an_impl_has_values(config: Any) -> None:
    algo = trained(config)
    actions = algo.predict(OBS)
    made: Any = type(algo)(algo.config, "cpu", False, algo.impl)
    np.testing.assert_array_equal(made.predict_value(OBS, actions), algo.predict_value(OBS, actions))


def test_sizes_and_noise_of_a_config_are_checked() -> None:
    with pytest.raises(TypeError, match="^batch_size is 2.5"):
        d3rlpy.algos.DQNConfig(batch_size=2.5).create()
    with pytest.raises(ValueError, match="target_smoothing_sigma is -1"):
        trained(d3rlpy.algos.TD3Config, target_smoothing_sigma=-1.0)


def test_names_of_algos_are_found_in_qlearning_too() -> None:
    qlearning = importlib.import_module("pfrl_like.d3rlpy.algos.qlearning")
    for name in ("CQL", "CQLConfig", "DiscreteBCQ", "ConstantEpsilonGreedy", "QLearningAlgoBase"):
        assert getattr(qlearning, name) is getattr(d3rlpy.algos, name)
    assert {*qlearning.__all__} < {*d3rlpy.algos.__all__}


def test_algorithms_are_instances_of_the_layers_base_classes() -> None:
    algo = trained(d3rlpy.algos.DQNConfig)
    fqe = d3rlpy.ope.DiscreteFQE(algo, d3rlpy.ope.FQEConfig())
    for each in (algo, fqe):
        assert isinstance(each, d3rlpy.algos.QLearningAlgoBase) and isinstance(each, d3rlpy.base.LearnableBase)
    assert isinstance(dataset(True), d3rlpy.dataset.ReplayBufferBase) and isinstance(algo, d3rlpy.algos.DQN)


ONLINE: dict[str, tuple[Any, Any]] = {  # the option, and updates, files and calls that it leads to
    "nothing": ({}, (31, 3, 40)), "n_updates": ({"n_updates": 2}, (62, 3, 40)),
    "update_interval": ({"update_interval": 2}, (16, 3, 40)),
    "update_start_step": ({"update_start_step": 30}, (10, 3, 40)),
    "n_steps": ({"n_steps": 20}, (11, 1, 20)), "save_interval": ({"save_interval": 2}, (31, 1, 40)),
    "n_steps_per_epoch": ({"n_steps_per_epoch": 5}, (31, 8, 40)),
}  # fmt: skip


@pytest.mark.parametrize("name", ONLINE)
def test_arguments_of_online_training_have_their_effect(name: str, tmp_path: Path) -> None:
    options, expected = ONLINE[name]
    env, calls = gymnasium.wrappers.TimeLimit(gymnasium.make("CartPole-v1").unwrapped, 500), list[int]()
    env.reset(seed=0)
    algo = small(d3rlpy.algos.DQNConfig).create()
    given = {"n_steps": 40, "n_steps_per_epoch": 13} | options
    algo.fit_online(
        env, show_progress=False, experiment_name="run", with_timestamp=False, **given,
        callback=lambda *args: calls.append(args[2]), logger_adapter=d3rlpy.logging.FileAdapterFactory(str(tmp_path)),
    )  # fmt: skip
    files = [*(tmp_path / "run").glob("model*")]
    assert abs(algo.grad_step - expected[0]) <= 2 * given.get("n_updates", 1)  # open episodes end at other steps
    assert (len(files), len(calls)) == expected[1:]
    assert (tmp_path / "run/time_step.csv").exists()


def test_the_size_of_the_cache_bounds_a_running_episode() -> None:
    options: Any = {"episodes": dataset(True).episodes, "cache_size": 2}
    buffer = d3rlpy.dataset.ReplayBuffer(d3rlpy.dataset.InfiniteBuffer(), **options)
    for _ in range(2):
        buffer.append(OBS[0], 0, 1.0)
    with pytest.raises(ValueError, match="more than cache_size, 2, rows: create the ReplayBuffer"):
        buffer.append(OBS[0], 0, 1.0)
    buffer.clip_episode(True)
    buffer.append(OBS[0], 0, 1.0)


# Objects of the library


def test_datasets_of_the_library_are_converted_and_others_are_refused() -> None:
    data = dataset(True)
    algo = small(d3rlpy.algos.DQNConfig).create()
    algo.build_with_dataset(data.to_library_dataset())
    assert (algo.observation_shape, algo.action_size) == ((3,), 3)
    for train in (lambda: algo.fit(data.episodes, 2, 2, **QUIET), lambda: algo.build_with_dataset(data.episodes)):
        with pytest.raises(TypeError, match="dataset is .*, expected a ReplayBuffer or an MDPDataset"):
            train()


@pytest.mark.parametrize("scaler", [None, "standard"])
def test_scorers_and_evaluators_agree_about_algorithms_of_both(scaler: str | None) -> None:
    """Rewards differ in every row, so that a shift by a row shows."""
    data = dataset(True)
    library, evaluator = data.to_library_dataset(), d3rlpy.metrics.TDErrorEvaluator()
    estimator = algos.DQN(n_epochs=1, batch_size=8, q_func_factory="mean", reward_scaler=scaler)
    estimator.fit(library, save_metrics=False, show_progress=False, verbose=False)
    options = {} if scaler is None else {"reward_scaler": P.StandardRewardScaler()}
    for each in (estimator, trained(d3rlpy.algos.DQNConfig, **options)):
        score = metrics.td_error_scorer(each, library)
        assert score < 0 and evaluator(each, data) == pytest.approx(-score, rel=1e-5)


def test_estimators_are_refused_where_networks_of_the_layer_are_necessary() -> None:
    algo, estimator = trained(d3rlpy.algos.DQNConfig), algos.DQN()
    with pytest.raises(TypeError, match="algo is DQN, expected an algorithm of pfrl_like.d3rlpy: evaluate estimators"):
        d3rlpy.ope.DiscreteFQE(estimator, d3rlpy.ope.FQEConfig())
    with pytest.raises(TypeError, match="algo is DQN, expected an algorithm of pfrl_like.d3rlpy"):
        algo.copy_q_function_from(estimator)
