"""The path of a GPU, taken on the CPU."""

from typing import Any

from pfrl_like.optimizers import GradientStep


class AsOnGPU(GradientStep):
    """Does not wait for the device to say whether the numbers are finite."""

    def _prepare(self) -> None:
        super()._prepare()
        self.on_gpu = True
        self.kernel = self._fused_kernel()


def as_on_gpu(agent: Any) -> Any:
    """The agent, all of whose optimisers take that path."""
    agent.gradient_steps = {name: AsOnGPU(**step.__getstate__()) for name, step in agent.gradient_steps.items()}
    agent._last_steps = next(iter(agent.gradient_steps.values()))
    return agent
