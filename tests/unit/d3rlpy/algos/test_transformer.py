import copy
import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from process_group import in_two_processes

from pfrl_like import d3rlpy
from pfrl_like.d3rlpy import ActionSpace, algos, preprocessing
from pfrl_like.errors import CheckpointError, ExportError, NotFittedError
from pfrl_like.metrics import evaluate_on_environment

#: d3rlpy 2.8.1 draws these actions from softmax([0.2, 1.0, -0.4]) with the seed 0.
SAMPLED = [1, 1, 1, 1, 1, 1, 1, 2, 2, 1]


class Transformer:
    """Its k-th output is [k, -k]; it records its inputs."""

    config = SimpleNamespace(context_size=2, max_timestep=3)

    def __init__(self, action_space: ActionSpace = ActionSpace.CONTINUOUS) -> None:
        self.inputs, self._is_discrete = list[Any](), action_space is ActionSpace.DISCRETE

    def _config_with_shape(self) -> Any:
        return SimpleNamespace(action_size=2)

    def predict(self, inpt: algos.TransformerInput) -> Any:
        self.inputs.append(inpt)
        return np.array([len(self.inputs), -len(self.inputs)], np.float32)


def test_the_context_is_that_of_d3rlpy() -> None:
    algo = Transformer()
    wrapper = algos.StatefulTransformerWrapper(algo, 10.0, algos.IdentityTransformerActionSampler())
    for observation, reward in [(1, 0.0), (2, 1.0), (3, 2.0), (4, 4.0)]:
        wrapper.predict(np.array([observation], np.float32), reward)
    first, second, _, last = algo.inputs
    assert (first.length, first.actions.tolist(), first.returns_to_go.tolist()) == (1, [[0, 0]], [[10]])
    assert (second.actions.tolist(), second.rewards.tolist()) == ([[1, -1], [0, 0]], [[0], [1]])
    assert (last.observations.tolist(), last.actions.tolist()) == ([[3], [4]], [[3, -3], [0, 0]])
    assert (last.rewards.tolist(), last.returns_to_go.tolist()) == ([[2], [4]], [[7], [3]])
    assert last.timesteps.tolist() == [3, 3]  # max_timestep


def test_an_episode_starts_without_context() -> None:
    algo = Transformer(ActionSpace.DISCRETE)
    wrapper = algos.StatefulTransformerWrapper(algo, 10.0, algos.GreedyTransformerActionSampler())
    assert wrapper.predict(np.array([1.0]), 0.0) == 0 and wrapper.algo is algo
    wrapper.predict(np.array([2.0]), 5.0)
    wrapper.reset()
    wrapper.predict(np.array([9.0]), 0.0)
    last = algo.inputs[-1]
    assert (last.observations.tolist(), last.actions.tolist(), last.returns_to_go.tolist()) == ([[9]], [0], [[10]])


def test_tuples_of_observations_are_stacked_by_part() -> None:
    algo = Transformer()
    wrapper = algos.StatefulTransformerWrapper(algo, 1.0, algos.IdentityTransformerActionSampler())
    for _ in range(2):
        wrapper.predict((np.zeros(3), np.zeros((1, 4))), 0.0)
    assert [each.shape for each in algo.inputs[-1].observations] == [(2, 3), (2, 1, 4)]


def test_softmax_actions_are_those_of_d3rlpy() -> None:
    np.random.seed(0)
    sample = algos.SoftmaxTransformerActionSampler(0.5)
    assert [sample(np.array([0.1, 0.5, -0.2])) for _ in SAMPLED] == SAMPLED


def dataset(discrete: bool, n: int = 30) -> d3rlpy.dataset.ReplayBuffer:
    stream = np.random.RandomState(0)
    actions = stream.randint(0, 2, (n, 1)) if discrete else stream.uniform(-3, 3, (n, 2)).astype(np.float32)
    ends = (np.arange(1, n + 1) % 6 == 0).astype(np.float32)
    observations, rewards = stream.randn(n, 4).astype(np.float32), stream.randn(n, 1).astype(np.float32)
    return d3rlpy.dataset.MDPDataset(observations, actions, rewards, np.zeros(n), ends)


def made(discrete: bool, **options: Any) -> Any:
    config: Any = algos.DiscreteDecisionTransformerConfig if discrete else algos.DecisionTransformerConfig
    encoder = d3rlpy.models.VectorEncoderFactory([8])
    return config(
        context_size=3, max_timestep=9, num_heads=2, num_layers=1, batch_size=4, encoder_factory=encoder, **options
    ).create()


def fitted(algo: Any, n_steps: int = 4, **options: Any) -> Any:
    noop = d3rlpy.logging.NoopAdapterFactory()
    options = {"logger_adapter": noop, "show_progress": False, "n_steps_per_epoch": 2} | options
    assert algo.fit(dataset(algo.get_action_type() is ActionSpace.DISCRETE), n_steps, **options) is None
    return algo


def test_fit_scales_learns_evaluates_and_writes_a_log(tmp_path: Path) -> None:
    algo, calls = made(True, observation_scaler=preprocessing.StandardObservationScaler()), list[int]()
    fitted(
        algo, 5, experiment_name="run", with_timestamp=False, eval_target_return=9.0,
        eval_env=gymnasium.make("CartPole-v1", max_episode_steps=3),
        eval_action_sampler=algos.GreedyTransformerActionSampler(),
        logger_adapter=d3rlpy.logging.FileAdapterFactory(str(tmp_path)), callback=lambda *each: calls.append(each[2]),
    )  # fmt: skip
    assert calls == [1, 2, 3, 4] and algo.grad_step == 4 and algo.observation_scaler.built
    names = {path.name for path in (tmp_path / "run").iterdir()}
    metrics = {"loss", "learning_rate", "environment", "time_step", "time_sample_batch", "time_algorithm_update"}
    assert {f"{name}.csv" for name in metrics} == {each for each in names if "_grad" not in each and "csv" in each}
    assert {"model_2.d3", "model_4.d3", "params.json", "transformer._rtg_embed.weight_grad.csv"} <= names
    rows = [*csv.reader((tmp_path / "run/environment.csv").open())]
    assert [row[:2] for row in rows] == [["1", "2"], ["2", "4"]] and float(rows[0][2]) == 3
    again = algos.DiscreteDecisionTransformer.from_json(str(tmp_path / "run/params.json"))
    assert again.config.serialize() == algo.config.serialize()


@pytest.mark.parametrize("discrete", [False, True])
def test_files_give_the_algorithm_again(tmp_path: Path, discrete: bool) -> None:
    scaler = None if discrete else preprocessing.MinMaxActionScaler()
    algo = fitted(made(discrete, action_scaler=scaler, reward_scaler=preprocessing.MultiplyRewardScaler(0.5)))
    algo.save(str(tmp_path / "model.d3"))
    loaded: Any = d3rlpy.load_learnable(str(tmp_path / "model.d3"))
    assert type(loaded) is type(algo) and loaded.config.serialize() == algo.config.serialize()
    algo.save_model(str(tmp_path / "model.pt"))
    loaded.load_model(str(tmp_path / "model.pt"))
    wrappers = [each.as_stateful_wrapper(5.0) for each in (algo, loaded)]
    for step in range(5):  # more than context_size
        np.random.seed(step)
        first = wrappers[0].predict(np.ones(4, np.float32) * step, 1.0)
        np.random.seed(step)
        np.testing.assert_array_equal(first, wrappers[1].predict(np.ones(4, np.float32) * step, 1.0))
    assert isinstance(first, int) if discrete else first.shape == (2,) and first.dtype == np.float32


@pytest.mark.slow
@pytest.mark.parametrize("discrete", [False, True])
def test_compiled_updates_are_those_of_eager_mode(discrete: bool) -> None:
    states = []
    for compiled in (True, False):
        torch.manual_seed(0)
        np.random.seed(0)
        algo = fitted(made(discrete, attn_dropout=0.0, resid_dropout=0.0, embed_dropout=0.0, compile_graph=compiled), 6)
        assert (algo.impl.agent._compiled is not None) is compiled
        states.append(algo.module_states())
    torch.testing.assert_close(*states, rtol=1e-4, atol=1e-5)


def of_group(rank: int) -> list[Any]:
    found: list[Any] = []
    for discrete in (False, True):
        torch.manual_seed(rank)
        algo = made(discrete, attn_dropout=0.0, resid_dropout=0.0, embed_dropout=0.0).config.create(enable_ddp=True)
        algo.build_with_dataset(dataset(discrete))
        batch = dataset(discrete).sample_trajectory_batch(4, 3)
        batch.masks[:] = 1.0
        batch.masks[: 2 * rank] = 0.0  # the second process has half of the steps
        metrics = algo.update(batch)
        found.append((copy.deepcopy(algo.module_states()), algo.impl.n_tokens, metrics.get("learning_rate")))
        np.random.seed(rank)
        fitted(algo)
        found.append(algo.module_states())
    return found


@pytest.mark.slow
def test_processes_have_the_same_parameters_and_one_learning_rate() -> None:
    first, second = in_two_processes(of_group)
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    _, n_tokens, lr = first[2]
    config = made(True).config
    assert n_tokens == 12 + 6
    assert lr == pytest.approx(config.learning_rate * n_tokens / config.warmup_tokens)


def test_the_learning_rate_grows_and_falls_with_the_steps_of_the_data() -> None:
    algo = made(True, warmup_tokens=24, final_tokens=48, learning_rate=0.1)
    algo.build_with_dataset(dataset(True))
    batch = d3rlpy.dataset.TrajectoryMiniBatch(
        np.zeros((4, 3, 4)), np.zeros((4, 3, 1)), *np.zeros((3, 4, 3, 1)), *np.ones((2, 4, 3)), 3
    )  # 12 steps
    rates = [algo.update(batch)["learning_rate"] for _ in range(4)]
    assert rates == pytest.approx([0.05, 0.1, 0.05, 0.01])  # half-way; at the top; half-way down; a tenth


def test_what_is_no_sequence_is_refused_with_what_to_use() -> None:
    algo, env = fitted(made(True)), gymnasium.make("CartPole-v1", max_episode_steps=3)
    for evaluate in (
        lambda: algo.predict(np.zeros((1, 4))),
        lambda: evaluate_on_environment(env)(algo),
        lambda: d3rlpy.metrics.EnvironmentEvaluator(env)(algo, dataset(True)),
    ):
        with pytest.raises(TypeError, match="expected a TransformerInput: act with as_stateful_wrapper"):
            evaluate()
    assert d3rlpy.metrics.evaluate_transformer_with_environment(algo.as_stateful_wrapper(9.0), env, 2) >= 1
    with pytest.raises(TypeError, match="as_stateful_wrapper"):
        d3rlpy.metrics.evaluate_transformer_with_environment(algo, env)


@pytest.mark.parametrize("discrete", [False, True])
def test_an_exported_policy_returns_the_action_of_predict(discrete: bool, tmp_path: Path) -> None:
    scalers: dict[str, Any] = {} if discrete else {"action_scaler": preprocessing.MinMaxActionScaler()}
    reward_scaler = preprocessing.MultiplyRewardScaler(multiplier=0.5)
    algo, rng = fitted(made(discrete, reward_scaler=reward_scaler, **scalers)), np.random.default_rng(0)
    algo.save_policy(str(tmp_path / "policy.pt"))
    exported: Any = torch.jit.load(str(tmp_path / "policy.pt"))  # type: ignore[no-untyped-call]
    for _ in range(5):
        obs, returns = rng.normal(size=(3, *algo.observation_shape)), rng.normal(size=(3, 1))
        actions = rng.integers(2, size=(3, 1)) if discrete else rng.normal(size=(3, algo.action_size))
        given = algos.TransformerInput(obs, actions, returns, returns, np.arange(1, 4))
        inputs = [torch.as_tensor(each, dtype=torch.float32) for each in (obs, actions, 0.5 * returns)]
        expected, output = algo.predict(given), exported(*inputs, torch.arange(1, 4)).numpy()
        np.testing.assert_allclose(output, expected.argmax() if discrete else expected, rtol=1e-4, atol=1e-5)


def test_an_exported_policy_that_acts_differently_is_refused(tmp_path: Path) -> None:
    algo = made(False)
    algo.create_impl((4,), 2)
    algo.impl.modules.transformer._output.register_forward_hook(lambda *args: args[-1] + 1.0 * torch.jit.is_tracing())
    with pytest.raises(ExportError, match="selects .* instead of"):
        algo.save_policy(str(tmp_path / "policy.pt"))
    assert not (tmp_path / "policy.pt").exists()


@pytest.mark.slow
def test_inputs_of_an_onnx_file_have_the_names_of_d3rlpy(tmp_path: Path) -> None:
    algo = made(False)
    algo.create_impl((4,), 2)
    algo.save_policy(str(tmp_path / "policy.onnx"))
    session = pytest.importorskip("onnxruntime").InferenceSession(
        tmp_path / "policy.onnx", providers=["CPUExecutionProvider"]
    )
    assert [(each.name, each.shape, each.type) for each in session.get_inputs()] == [
        ("observation_0", [3, 4], "tensor(float)"), ("action", [3, 2], "tensor(float)"),
        ("return_to_go", [3, 1], "tensor(float)"), ("timestep", [3], "tensor(int64)"),
    ]  # fmt: skip


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the numbers of steps are"):
        algos.TransformerInput(np.zeros((2, 1)), np.zeros(2), np.zeros((2, 1)), np.zeros((1, 1)), np.zeros(2))
    with pytest.raises(NotFittedError, match="has no networks"):
        made(False).as_stateful_wrapper(1.0)
    with pytest.raises(ValueError, match="eval_target_return is None"):
        fitted(made(True), eval_env=gymnasium.make("CartPole-v1", max_episode_steps=3))
    with pytest.raises(AssertionError, match="discrete actions, but DecisionTransformer has continuous"):
        made(False).fit(dataset(True), 2, 2)
    with pytest.raises(ValueError, match="num_heads to divide 8"):
        algos.DecisionTransformerConfig(num_heads=3, encoder_factory=made(False).config.encoder_factory).create(
        ).create_impl((4,), 2)  # fmt: skip


@pytest.mark.parametrize("field", ["context_size", "max_timestep", "num_layers"])
def test_a_file_cannot_ask_for_a_network_that_fills_the_memory(tmp_path: Path, field: str) -> None:
    algo, path = made(False), tmp_path / "params.json"
    algo.create_impl((4,), 2)
    content = json.loads(algo._config_with_shape().serialize())
    content["config"]["params"][field] = 10**9
    path.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match="entries|parameters|memory"):
        algos.DecisionTransformer.from_json(str(path))
