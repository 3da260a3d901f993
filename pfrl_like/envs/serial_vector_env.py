"""`SerialVectorEnv`: several environments stepped one after the other."""

from collections.abc import Mapping, Sequence
from typing import Any

from pfrl_like.env import VectorEnv, mend_gym, reset_values, seed_env
from pfrl_like.envs.episode_tape import taped
from pfrl_like.envs.vector_stream import check_action_count, join_steps, seed_list, skip_mask
from pfrl_like.processes.supervisor import close_all


class SerialVectorEnv(VectorEnv):
    """Environments that run in this process, one after the other: for debugging and for cheap environments.

    Args:
        envs: Environments of one kind; their steps all return four values or all five.

    Attributes:
        envs: The environments.
        num_envs: Number of environments.
        observation_space: Observation space of one environment.
        action_space: Action space of one environment.
        spec: The `spec` of the first environment, None if it has none.
        last_obs: The observations returned last.

    Raises:
        ValueError: If there is no environment.
        TypeError: If an object lacks `reset` or `step`, or is a class or a function.
    """

    def __init__(self, envs: Sequence[Any]) -> None:
        if len(envs) == 0:
            raise ValueError("envs is empty, expected at least one environment")
        self.envs = envs
        for i, env in enumerate(envs):
            if isinstance(env, type) or not (hasattr(env, "reset") and hasattr(env, "step")):
                raise TypeError(
                    f"envs[{i}] is {env!r:.80} ({type(env).__name__}), expected an environment with reset and step; "
                    "MultiprocessVectorEnv takes functions that make one"
                )
            mend_gym(env)
        self.num_envs = len(envs)
        self.observation_space = getattr(envs[0], "observation_space", None)
        self.action_space = getattr(envs[0], "action_space", None)
        self.spec = getattr(envs[0], "spec", None)
        self.last_obs: Sequence[Any] = [None] * self.num_envs
        self._seeds: list[int | None] = [None] * self.num_envs  # for the next reset
        self._tells_at_reset = False

    def step(self, action: Any) -> Any:
        """Act in every environment; returns the values of `VectorEnv.step`, in the environments' own form.

        Raises:
            ValueError: If the number of actions is wrong.
            EnvError: If the environments do not all return four or all return five values.
        """
        check_action_count(action, self.num_envs)
        result = join_steps([env.step(a) for env, a in zip(self.envs, action, strict=True)])
        self.last_obs = result[0]
        return result

    def reset(self, mask: Any = None) -> Any:
        """Start new episodes where `mask` is not True.

        Returns:
            A list of observations. If environments return (obs, info): that list and a list of dicts, empty ones where
            nothing was reset.

        Raises:
            ValueError: If the mask has a wrong length.
        """
        observations, infos = list(self.last_obs), [{} for _ in self.envs]  # type: list[Any], list[dict[str, Any]]
        for i, skip in enumerate(skip_mask(mask, self.num_envs)):
            if skip:
                continue
            seed, self._seeds[i] = self._seeds[i], None
            arguments = {} if seed is None else {"seed": seed}
            observations[i], info = reset_values(self.envs[i].reset(**arguments))
            self._tells_at_reset = info is not None
            infos[i] = info or {}
        self.last_obs = observations
        return (observations, infos) if self._tells_at_reset else observations

    def seed(self, seeds: Any) -> None:
        """Seed the environments, at once or at their next reset, depending on the environment.

        Args:
            seeds: One integer for each environment, one for all, or None for nothing.

        Raises:
            ValueError: If the number of seeds is wrong or an environment takes none.
        """
        for i, seed in enumerate(seed_list(seeds, self.num_envs)):
            if seed is not None and not seed_env(self.envs[i], seed):
                self._seeds[i] = seed

    def record(self) -> None:
        """Record episodes from now on."""
        self.envs = taped(self.envs)

    def saved_state(self) -> dict[str, Any]:
        """Values from which `restore_state` reaches the same state; call `record` first."""
        return {"episodes": [env.saved_state() for env in self.envs]}

    def restore_state(self, state: Mapping[str, Any]) -> list[Any]:
        """Bring the environments into a saved state; call `record` first.

        Returns:
            The `Arrival` of each environment.
        """
        arrivals = [env.restore_state(told) for env, told in zip(self.envs, state["episodes"], strict=True)]
        self.last_obs = [arrival.obs for arrival in arrivals]
        return arrivals

    def close(self) -> None:
        """Close every environment that has `close`, and raise the first error."""
        close_all(self.envs)
