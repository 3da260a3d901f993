"""Every agent's exported policy acts as the agent does, in every format, in batches of any size."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from registry import KINDS, arguments_of, obs_size

from pfrl_like import agents
from pfrl_like.export.policy import Draws

#: Formats, and agents of which the default run tries them (plain, recurrent); the slow run tries all.
EXEMPLARS = {
    ".pt": ({*KINDS}, {agents.DQN, agents.IQN, agents.TD3, agents.PPO, agents.A3C}),
    ".onnx": ({agents.SoftActorCritic}, {agents.DQN}),
    ".pt2": ({agents.IQN}, {agents.PPO}),
}
BATCHES = (1, 4)
#: Agents whose actions depend on more than observations.
NOT_EXPORTED = {agents.DecisionTransformer, agents.DiscreteDecisionTransformer}
#: Agents that draw whenever they act: their policies are given the numbers.
DRAWING = {agents.BCQ, agents.BEAR}


def cases() -> list[Any]:
    return [
        pytest.param(
            kind, recurrent, ending, id=f"{kind.__name__}{'-recurrent' * recurrent}{ending}",
            marks=[] if kind in exemplars[recurrent] else pytest.mark.slow,
        )
        for ending, exemplars in EXEMPLARS.items()
        for kind in KINDS
        if kind not in NOT_EXPORTED
        for recurrent in ((False, True) if getattr(kind, "_may_be_recurrent", True) else (False,))
    ]  # fmt: skip


def opened(path: Path, names: list[str]) -> Any:
    """The policy in a file, called with arrays."""
    if path.suffix == ".onnx":
        onnxruntime = pytest.importorskip("onnxruntime")
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return lambda *inputs: session.run(None, dict(zip(names, inputs, strict=True)))
    module = torch.jit.load(path) if path.suffix == ".pt" else torch.export.load(path).module()

    def run(*inputs: Any) -> list[Any]:
        outputs = module(*map(torch.from_numpy, inputs))
        return [output.numpy(force=True) for output in (outputs if isinstance(outputs, tuple | list) else [outputs])]

    return run


@pytest.mark.representatives(6)
@pytest.mark.parametrize(("kind", "recurrent", "ending"), cases())
def test_an_exported_policy_acts_as_the_agent_does(kind: Any, recurrent: bool, ending: str, tmp_path: Path) -> None:
    if ending == ".onnx":
        pytest.importorskip("onnxscript")
    agent = kind(**arguments_of(kind, recurrent))
    acting = getattr(agent, "_acting", agent)
    acting.act_deterministically = True  # IQN draws, and some policies give samples
    rng = np.random.default_rng(0)
    path = tmp_path / f"policy{ending}"
    example_obs = rng.normal(size=(20, obs_size(kind))).astype(np.float32)
    signature = agent.export(path, example_obs=example_obs, noise="input" if kind in DRAWING else "fixed")
    names = [port.name for port in signature.inputs]
    noise = [port for port in signature.inputs if port.name.startswith("noise")]
    assert names[0] == "input_0" and len(names) == 1 + len(signature.outputs[1:]) + len(noise)
    assert bool(noise) == (kind in DRAWING)
    run = opened(path, names)
    for batch in BATCHES:
        if recurrent:
            acting.recurrent_memory.forget(training=False)
        state = [np.zeros(port.sizes(batch), port.dtype) for port in signature.inputs[1:] if port not in noise]
        for _ in range(3 if recurrent else 1):
            obs = rng.normal(size=(batch, obs_size(kind))).astype(np.float32)
            drawn = [rng.normal(size=port.sizes(batch)).astype(port.dtype) for port in noise]
            actions, *state = run(obs, *state, *drawn)
            with acting.eval_mode(), Draws([torch.from_numpy(each).flatten(0, 1) for each in drawn]):
                wanted = acting.batch_act(list(obs))
            assert actions.dtype == wanted.dtype
            np.testing.assert_allclose(actions, wanted, atol=1e-5, rtol=0)


@pytest.mark.representatives(1)
@pytest.mark.parametrize("ending", EXEMPLARS)
def test_features_that_numpy_standardises_one_by_one_are_in_every_format(ending: str, tmp_path: Path) -> None:
    if ending == ".onnx":
        pytest.importorskip("onnxscript")
    rng, size = np.random.default_rng(0), obs_size(agents.TD3)
    data = (rng.normal(size=(40, size)) * np.geomspace(1e-2, 1e2, size) + np.linspace(100, 0, size)).astype(np.float32)
    mean, std = data.mean(0), data.std(0)
    agent = agents.TD3(**arguments_of(agents.TD3, False) | {"phi": lambda obs: (np.asarray(obs) - mean) / std})
    agent.act_deterministically = True  # its policy gives samples
    path = tmp_path / f"policy{ending}"
    signature = agent.export(path, example_obs=data[:20])
    with agent.eval_mode():
        wanted = agent.batch_act([*data])
    found = opened(path, [port.name for port in signature.inputs])(data)[0]
    np.testing.assert_allclose(found, wanted, atol=1e-5, rtol=0)
