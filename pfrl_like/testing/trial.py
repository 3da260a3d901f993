"""What the checks of agents work with: an agent that has been trained, others like it, and what they are told."""

import copy
import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pfrl_like.batch import Batch
from pfrl_like.testing.play import Episodes, play_one
from pfrl_like.testing.recorded_env import RecordedEnv
from pfrl_like.testing.requirement import difference
from pfrl_like.utils.experiences import batch_of_experiences
from pfrl_like.utils.random_seed import set_random_seed


class Trial:
    """What the checks work with.

    Args:
        make_agent: See `check_agent`, as for the others.
        env: The environment.
        n_steps: Steps of a training.
        seed: The seed.
    """

    def __init__(self, make_agent: Callable[..., Any], env: Any, n_steps: int, seed: int) -> None:
        self.make_agent = make_agent
        self.env = env
        self.n_steps = n_steps
        self.seed = seed
        self.trained = self.new_agent()
        self.actions = play_one(self.trained, env, n_steps)
        self._trained_state = copy.deepcopy(state_of(self.trained))

    def difference(self, first: Any, second: Any, name: str = "") -> str | None:
        """Where two states differ: bit for bit on the CPU, up to rounding on a GPU."""
        return difference(first, second, name, exact=self.on_cpu)

    @property
    def on_cpu(self) -> bool:
        """Whether the agent computes on the CPU."""
        return torch.device(getattr(self.trained, "device", "cpu")).type == "cpu"

    def new_agent(self, seed: int | None = None) -> Any:
        """An untrained agent; the same one for the same seed."""
        set_random_seed(self.seed if seed is None else seed)
        self.env.action_space.seed(self.seed)  # random actions may be drawn from it
        return self.make_agent()

    def trained_again(self) -> Any:
        """The trained agent as it was after its training, but for its buffer; checks may go on learning with it."""
        if hasattr(self.trained, "load_state_dict"):
            self.trained.load_state_dict(self._trained_state)
            return self.trained
        with tempfile.TemporaryDirectory() as dirname:
            for name, content in self._trained_state.items():
                path = Path(dirname, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.tobytes())
            self.trained.load(dirname)
        return self.trained

    def batch(self) -> Batch:
        """A minibatch of what the trained agent has seen, the same every time."""
        return self.batch_of(self.trained)

    def batch_of(self, agent: Any) -> Batch:
        """A minibatch of what an agent has seen, the same every time."""
        sampling = getattr(agent, "sampling", {})
        set_random_seed(self.seed)
        if getattr(agent, "learns_from_sequences", getattr(agent, "recurrent", False)):
            batch: Batch = agent.replay_buffer.sample_sequences(
                agent.minibatch_size, agent.episodic_update_len, agent.gamma, **sampling
            )
        else:
            batch = agent.replay_buffer.sample_batch(agent.minibatch_size, agent.gamma, **sampling)
        if agent.replay_buffer.prioritized:  # errors of 1 do not change which items are drawn
            agent.replay_buffer.update_priorities(batch.index, np.ones(len(batch.index)))
        return batch

    def episode(self) -> Batch:
        """A short episode of random actions, for agents that learn from steps in a row."""
        env = RecordedEnv(self.env, seed=self.seed)
        env.reset()
        while not env.ended:
            env.step(env.action_space.sample())
        steps = [
            {
                "state": step.obs, "action": step.action, "reward": step.reward, "next_state": step.next_obs,
                "is_state_terminal": False,
            }
            for step in env.episodes[0]
        ]  # fmt: skip
        return batch_of_experiences([steps], self.trained.gamma, sequences=True).replace(index=None)

    @property
    def learns_from_batches(self) -> bool:
        """Whether the agent has `update` and a replay buffer."""
        return hasattr(self.trained, "update") and getattr(self.trained, "replay_buffer", None) is not None

    @functools.cached_property
    def observations(self) -> list[Any]:
        """Some observations of the environment."""
        episodes, observations = Episodes(self.env, self.seed), []
        for _ in range(20):
            observations.append(episodes.obs)
            episodes.step(episodes.env.action_space.sample())
        return observations

    def evaluated(self, agent: Any) -> list[Any]:
        """What an agent does in evaluation on the observations, as one episode."""
        set_random_seed(self.seed)
        with agent.eval_mode():
            agent.act(self.observations[0])
            agent.observe(self.observations[0], 0.0, True, False)  # forget what was seen before
            actions = []
            for obs in self.observations:
                actions.append(np.asarray(agent.act(obs)))
                agent.observe(obs, 0.0, False, False)
        return actions


def state_of(agent: Any) -> dict[str, Any]:
    """Everything that `save` would save: live tensors; of an agent without `state_dict` the bytes of its files."""
    if hasattr(agent, "state_dict"):
        state: dict[str, Any] = agent.state_dict()
        return state
    with tempfile.TemporaryDirectory() as dirname:
        agent.save(dirname)
        files = sorted(path for path in Path(dirname).rglob("*") if path.is_file())
        return {str(path.relative_to(dirname)): np.frombuffer(path.read_bytes(), np.uint8) for path in files}
