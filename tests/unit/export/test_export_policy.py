"""What goes into an exported file, what it is compared with, and what is refused."""

import contextlib
import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from agent_parts import make_agent, make_q_function
from agent_parts import make_batch as make_transitions
from on_policy_parts import make_nets
from python_process import output_of
from registry import arguments_of
from torch import nn

from pfrl_like.agents import BCQ, PPO
from pfrl_like.errors import CheckpointError, ExportError, MissingDependencyError, NonFiniteError
from pfrl_like.export.export_policy import check_policy, export_policy, exporting
from pfrl_like.export.features import more_observations
from pfrl_like.export.policy import GreedyPolicy
from pfrl_like.nn import Branched, EmpiricalNormalization, RecurrentSequential
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.storage import atomic
from pfrl_like.testing.play import difference
from pfrl_like.utils.contexts import ignores_training

OBS = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)


def greedy(agent: Any, obs: Any, **given: Any) -> Any:
    with agent.eval_mode():
        return agent.batch_act(list(obs), **given)


def exported(agent: Any, path: Path, **options: Any) -> Any:
    agent.export(path / "policy.pt", **{"example_obs": OBS, **options})
    return torch.jit.load(path / "policy.pt")


# What is inside


@pytest.mark.parametrize("ending", [".pt", pytest.param(".onnx", marks=pytest.mark.slow)])
@pytest.mark.parametrize("phi", [None, lambda obs: obs / 2], ids=["no phi", "phi"])
def test_float64_of_the_environment_is_cast_inside(phi: Any, ending: str, tmp_path: Path) -> None:
    agent = make_agent(phi=phi)  # whose network computes in float32
    path = tmp_path / f"policy{ending}"
    signature = agent.export(path, example_obs=gymnasium.spaces.Box(-1, 1, (5,), np.float64))
    assert signature.inputs[0].dtype == "float64"
    obs = OBS.astype(np.float64)
    if ending == ".pt":
        found = torch.jit.load(path)(torch.from_numpy(obs)).numpy()
    else:
        found = pytest.importorskip("onnxruntime").InferenceSession(path).run(None, {"input_0": obs})[0]
    np.testing.assert_array_equal(found, greedy(agent, OBS))


def test_a_network_of_float64_gets_float64(tmp_path: Path) -> None:
    agent = make_agent(q_function=make_q_function().double())
    policy, obs = exported(agent, tmp_path, example_obs=OBS.astype(np.float64)), OBS.astype(np.float64)
    np.testing.assert_array_equal(policy(torch.from_numpy(obs)).numpy(), greedy(agent, obs))


@pytest.mark.parametrize("in_network", [True, False], ids=["in the network", "before it"])
def test_the_normalisation_of_observations_is_inside_and_holds_still(in_network: bool, tmp_path: Path) -> None:
    normalizer = EmpiricalNormalization(5)
    normalizer.experience(3 + 10 * torch.from_numpy(OBS))
    if in_network:
        agent: Any = make_agent(q_function=nn.Sequential(normalizer, make_q_function()))
    else:
        model = Branched(*make_nets())
        optimizer = torch.optim.Adam(model.parameters())
        agent = PPO(model, optimizer, obs_normalizer=normalizer, act_deterministically=True)
    before = normalizer.count.clone()
    policy = exported(agent, tmp_path)
    for obs in (OBS, 50 * OBS, OBS):
        np.testing.assert_array_equal(policy(torch.from_numpy(obs)).numpy(), greedy(agent, obs))
    assert normalizer.count == before


def test_masks_are_inputs(tmp_path: Path) -> None:
    agent = make_agent(n_actions=4)
    policy = exported(agent, tmp_path, action_mask=[True, False, True, True])
    masks = np.random.default_rng(1).random((40, 4)) < 0.5
    actions = policy(torch.from_numpy(OBS), torch.from_numpy(masks)).numpy()
    np.testing.assert_array_equal(actions, greedy(agent, OBS, action_mask=masks))
    assert (masks[np.arange(40), actions] | ~masks.any(1)).all()


def test_the_parts_of_an_observation_are_inputs_and_a_mask_among_them_counts(tmp_path: Path) -> None:
    agent = make_agent(phi=lambda obs: np.concatenate([obs["b"], obs["a"]]))
    masks = np.random.default_rng(1).random((40, 2)) < 0.7
    obs = [{"b": row[2:], "a": row[:2], "action_mask": mask} for row, mask in zip(OBS, masks, strict=True)]
    signature = agent.export(tmp_path / "policy.pt", example_obs=obs)
    assert [(port.part, port.shape) for port in signature.inputs] == [
        ("a", ("batch", 2)), ("action_mask", ("batch", 2)), ("b", ("batch", 3)),
    ]  # fmt: skip
    policy = torch.jit.load(tmp_path / "policy.pt")
    actions = policy(*map(torch.from_numpy, (OBS[:, :2], masks, OBS[:, 2:])))
    np.testing.assert_array_equal(actions.numpy(), greedy(agent, obs))


# Files


@pytest.mark.parametrize("ending", [".pt", ".pt2"])
def test_the_signature_stands_in_the_file(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"policy{ending}"
    signature = make_agent(recurrent=True).export(path, example_obs=OBS)
    found = {"signature.json": ""}
    if ending == ".pt":
        torch.jit.load(path, _extra_files=found)
    else:
        torch.export.load(path, extra_files=found)
    ports = json.loads(found["signature.json"])
    assert [port["name"] for port in ports["inputs"]] == ["input_0", "state_0", "state_1"]
    assert [port["name"] for port in ports["outputs"]] == ["action", "next_state_0", "next_state_1"]
    assert [tuple(port["shape"]) for port in ports["inputs"]] == [port.shape for port in signature.inputs]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (".pt", "import torch; print(torch.jit.load('policy.pt')(torch.tensor(obs)).tolist())"),
        (
            ".onnx",
            "import numpy, onnxruntime; session = onnxruntime.InferenceSession('policy.onnx')\n"
            "print(session.run(None, {'input_0': numpy.array(obs, 'float32')})[0].tolist())\n"
            "assert 'torch' not in modules",
        ),
    ],
)
def test_a_file_runs_where_this_library_is_not(ending: str, code: str, tmp_path: Path) -> None:
    if ending == ".onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    agent = make_agent(phi=lambda obs: obs.astype(np.float32) / 10)
    agent.export(tmp_path / f"policy{ending}", example_obs=OBS)
    assert [path.name for path in tmp_path.iterdir()] == [f"policy{ending}"]
    probe = f"from sys import modules; obs = {OBS.tolist()}\n{code}; assert 'pfrl_like' not in modules"
    output = output_of("-I", "-W", "ignore", "-c", probe, folder=tmp_path)
    assert json.loads(output) == greedy(agent, OBS).tolist()


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: Any) -> None:
    path, agent = tmp_path / "policy.pt", make_agent()
    agent.export(path, example_obs=OBS)
    before = path.read_bytes()

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "write", full)
    with pytest.raises(CheckpointError, match="No space left"):
        make_agent().export(path, example_obs=OBS)
    assert path.read_bytes() == before and [*tmp_path.iterdir()] == [path]


def test_exporting_leaves_no_trace_in_the_agent_and_the_streams(tmp_path: Path) -> None:
    agent = make_agent("IQN", recurrent=True)
    agent.act(OBS[0])
    agent.observe(OBS[1], 1.0, False, False)
    with agent.eval_mode():
        agent.act(OBS[2])
    state, memory = agent.state_dict(), agent.recurrent_memory.test_state
    torch.manual_seed(5), np.random.seed(5)
    exported(agent, tmp_path)
    drawn = float(torch.rand(())), np.random.random()
    torch.manual_seed(5), np.random.seed(5)
    assert drawn == (float(torch.rand(())), np.random.random())
    assert difference(state, agent.state_dict(), "state") is None
    assert agent.recurrent_memory.test_state is memory and agent.training


def test_the_format_may_be_said_where_the_name_does_not(tmp_path: Path) -> None:
    agent = make_agent()
    agent.export(tmp_path / "policy", example_obs=OBS, format=".pt")
    actions = torch.jit.load(tmp_path / "policy")(torch.from_numpy(OBS))
    np.testing.assert_array_equal(actions.numpy(), greedy(agent, OBS))


# Observations to try with


def test_observations_come_from_the_replay_buffer_or_what_was_acted_on_last(tmp_path: Path) -> None:
    agent = make_agent()
    agent.act(OBS[0])
    assert exported(agent, tmp_path, example_obs=None)(torch.from_numpy(OBS)).tolist() == greedy(agent, OBS).tolist()
    for obs in OBS[1:6]:
        agent.observe(obs, 1.0, False, False)
        agent.act(obs)
    assert len(agent._observations_seen()) == 5
    exported(agent, tmp_path, example_obs=None)


def test_observations_are_drawn_from_a_space_whose_stream_stays(tmp_path: Path) -> None:
    space = gymnasium.spaces.Box(-1, 1, (5,), seed=0)
    exported(make_agent(), tmp_path, example_obs=space)
    np.testing.assert_array_equal(space.sample(), gymnasium.spaces.Box(-1, 1, (5,), seed=0).sample())


def test_an_agent_that_has_seen_nothing_says_what_to_give(tmp_path: Path) -> None:
    agent = make_agent()
    agent.update(make_transitions(0))
    with pytest.raises(ExportError, match="example_obs is None, and this DQN has not .*observation_space"):
        agent.export(tmp_path / "policy.pt")
    with pytest.raises(ExportError, match="example_obs is empty"):
        agent.export(tmp_path / "policy.pt", example_obs=[])


# What is refused


@ignores_training
class Planted(nn.Module):
    """Values of two actions, of which either is the better for some observations; others once they have been traced."""

    def __init__(self, shift: float, difference: float = 1.0) -> None:
        super().__init__()
        self.linear, self.shift = nn.Linear(5, 2), shift
        self.linear.weight.data = torch.tensor([[difference] + 4 * [0.0], 5 * [0.0]])
        self.linear.bias.data = torch.zeros(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values = self.linear(x)
        return values + torch.tensor([0.0, self.shift]) if torch.jit.is_tracing() else values


class OneSize(nn.Module):
    """Takes, once it has been traced, as many observations as it was traced with."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.zeros(len(x), 5)


class Unlike(nn.Module):
    """Draws from a place of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.empty_like(x).normal_()


def of_values(*layers: nn.Module) -> Any:
    return make_agent(q_function=nn.Sequential(*layers, DiscreteActionValueHead()))


@pytest.mark.parametrize(
    ("layers", "error", "words"),
    [
        ([Planted(1.0)], ExportError, r"selects different actions than the agent for \d+ of \d+ observations"),
        ([OneSize(), nn.Linear(5, 2)], ExportError, r"action is \(3,\) of torch.int64, the agent's is \(1,\)"),
        ([Unlike(), nn.Linear(5, 2)], ExportError, "an unsupported function samples, expected torch.rand"),
    ],
)
def test_a_policy_that_would_act_otherwise_is_refused(layers: Any, error: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=words):
        of_values(*layers).export(tmp_path / "policy.pt", example_obs=OBS)
    assert not [*tmp_path.iterdir()]


def test_actions_that_are_equally_good_may_differ(tmp_path: Path) -> None:
    agent = of_values(Planted(1e-7, difference=0.0))
    assert set(exported(agent, tmp_path)(torch.from_numpy(OBS)).tolist()) != set(greedy(agent, OBS).tolist())


def test_numbers_of_actions_are_compared(tmp_path: Path) -> None:
    class Shifted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1e-4 if torch.jit.is_tracing() else x

    policy, vf = make_nets(continuous=True)
    model = Branched(nn.Sequential(policy[:-1], Shifted(), policy[-1]), vf)
    agent = PPO(model, torch.optim.Adam(model.parameters()))
    with pytest.raises(ExportError, match="selects different actions than the agent for 1 of 1 observations"):
        agent.export(tmp_path / "policy.pt", example_obs=OBS)
    export_policy(agent.greedy_copy, tmp_path / "policy.pt", OBS, tolerance=1e-3)


def test_recurrent_states_are_compared(tmp_path: Path) -> None:
    class Drifting(nn.GRU):
        def forward(self, *inputs: Any) -> Any:
            output, state = super().forward(*inputs)
            return output, state + 1e-4 if torch.jit.is_tracing() else state

    q_function = RecurrentSequential(Drifting(5, 8), nn.Linear(8, 2), DiscreteActionValueHead())
    with pytest.raises(ExportError, match="recurrent state differs by 0.0001, more than 1e-05"):
        make_agent(recurrent=True, q_function=q_function).export(tmp_path / "policy.pt", example_obs=OBS)


@pytest.mark.parametrize("slope", [0.0, 10.0])
def test_numbers_that_were_chosen_among_several_may_differ_if_they_are_as_good(slope: float, tmp_path: Path) -> None:
    class Tilted(nn.Module):
        """A critic with another taste in a trace."""

        def forward(self, pair: Any) -> torch.Tensor:
            return pair[1][:, :1] * (-1.0 if torch.jit.is_tracing() else slope)

    agent = BCQ(**arguments_of(BCQ))
    agent._choice.critic = Tilted()
    with pytest.raises(ExportError, match="selects different actions") if slope else contextlib.nullcontext():
        agent.export(tmp_path / "policy.pt", example_obs=OBS[:, :4])
    assert (tmp_path / "policy.pt").exists() == (slope == 0.0)


def test_actions_that_are_nan_are_refused(tmp_path: Path) -> None:
    policy, vf = make_nets(continuous=True)
    policy[0].weight.data.fill_(torch.nan)
    model = Branched(policy, vf)
    with pytest.raises(NonFiniteError, match="the agent's own actions are NaN"):
        PPO(model, torch.optim.Adam(model.parameters())).export(tmp_path / "policy.pt", example_obs=OBS)


def test_arguments_are_looked_at_first(tmp_path: Path) -> None:
    for name, options, error, words in (
        ("policy.h5", {}, ValueError, r"policy.h5' and the format is '.h5', expected one of .pt, .onnx, .pt2"),
        ("policy.pt", {"noise": "none"}, ValueError, "noise is 'none', expected one of 'fixed', 'input'"),
        ("nowhere/policy.pt", {}, CheckpointError, "its directory does not exist"),
        ("policy.pt", {"example_obs": OBS[:, :3]}, ValueError, "obs does not fit q_function"),
    ):
        with pytest.raises(error, match=words):
            make_agent().export(tmp_path / name, **{"example_obs": OBS, **options})


def test_a_missing_package_is_named_with_the_extra(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r'package onnx, which .*: pip install -e "\.\[export\]"'):
        make_agent().export(tmp_path / "policy.onnx", example_obs=OBS)


# With what an exported policy is compared


MANY = torch.from_numpy(np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32))


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_thousand_observations_are_compared_in_batches_of_several_sizes(recurrent: bool) -> None:
    agent, given = make_agent(recurrent=recurrent), []
    policy = GreedyPolicy(agent.greedy_copy(), MANY[:256], None, "fixed")

    def run(inputs: Any) -> list[torch.Tensor]:
        given.append(inputs)
        outputs = policy(*inputs)
        return list(outputs) if recurrent else [outputs]

    with exporting():
        check_policy(agent.greedy_copy(), policy, run, MANY[:256])
    rows = torch.cat([inputs[0] for inputs in given])
    assert rows.shape == (1000, 5) and len(rows.unique(dim=0)) >= 990
    assert {len(inputs[0]) for inputs in given} == ({1, 2, 98} if recurrent else {1, 2, 13, 123})
    begins = [not inputs[1].any() for inputs in given] if recurrent else []
    assert begins.count(True) == (3 if recurrent else 0)


def test_further_observations_lie_between_those_given() -> None:
    generator = torch.Generator().manual_seed(0)
    integers = torch.tensor([[0, 7], [5, 9]])
    for _ in range(20):
        more = more_observations({"x": MANY, "n": integers.repeat(150, 1), "action_mask": MANY > 0}, 500, generator)
        assert torch.equal(more["x"][:300], MANY) and (more["x"].aminmax(dim=0)[1] <= MANY.amax(0)).all()
        assert {*more["n"][:, 0].tolist()} == {0, 5} and {*more["n"][:, 1].tolist()} == {7, 9}
    masks = {tuple(row) for row in (MANY > 0).tolist()}
    assert {tuple(row) for row in more["action_mask"].tolist()} <= masks


def test_few_numbers_are_also_moved() -> None:
    more = more_observations(MANY[:1], 100, torch.Generator().manual_seed(0))
    assert len(more.unique(dim=0)) == 100 and torch.equal(more[0], MANY[0])
