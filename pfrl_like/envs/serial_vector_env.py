"""`SerialVectorEnv`: several environments that are stepped one after another."""

from collections.abc import Mapping, Sequence
from typing import Any

from pfrl_like.env import VectorEnv, mend_gym, reset_values, seed_env
from pfrl_like.envs.episode_tape import taped
from pfrl_like.envs.vector_stream import check_action_count, join_steps, seed_list, skip_mask
from pfrl_like.processes.supervisor import close_all


class SerialVectorEnv(VectorEnv):
    """Environments that run in this process, one after another. Use it for debugging, or for fast environments.

    A subclass that does not call `super().__init__` sets `envs`, and `observation_space` and `action_space` if it has
    them.

    Args:
        envs: Environments with the same spaces. Their steps must all return four values or all return five values.

    Attributes:
        envs: The environments.
        observation_space: Observation space of one environment.
        action_space: Action space of one environment.
        spec: `spec` of the first environment; None if the environment has no `spec`.
        last_obs: Latest observations. Empty before the first reset.

    Raises:
        ValueError: If `envs` is empty.
        TypeError: If an object has no `reset` or no `step`, or is a class or a function.
    """

    # Class attributes, so that a subclass need not call `__init__`.
    observation_space: Any = None
    action_space: Any = None
    spec: Any = None
    last_obs: Sequence[Any] = ()
    _seeds: Sequence[int | None] = ()  # seeds for the next reset
    _resets_with_info = False

    def __init__(self, envs: Sequence[Any]) -> None:
        if len(envs) == 0:
            raise ValueError("envs is empty, expected at least one environment")
        self.envs = envs
        for i, env in enumerate(envs):
            if isinstance(env, type) or not (hasattr(env, "reset") and hasattr(env, "step")):
                raise TypeError(
                    f"envs[{i}] is {env!r:.80} ({type(env).__name__}), expected an environment with reset and step; "
                    "MultiprocessVectorEnv takes functions that make environments"
                )
            mend_gym(env)
        names = "observation_space", "action_space", "spec"
        self.observation_space, self.action_space, self.spec = (getattr(envs[0], name, None) for name in names)

    @property
    def num_envs(self) -> int:  # type: ignore[override]  # PFRL's subclasses do not set it
        """Number of environments."""
        return len(self.envs)

    def step(self, actions: Any) -> Any:
        """Step all environments. Return the four or five values of `VectorEnv.step`, as many as the environments.

        Raises:
            ValueError: If the number of actions is wrong.
            EnvError: If the environments do not all return four values or all return five values.
        """
        check_action_count(actions, self.num_envs)
        result = join_steps([env.step(a) for env, a in zip(self.envs, actions, strict=True)])
        self.last_obs = result[0]
        return result

    def reset(self, mask: Any = None) -> Any:
        """Start new episodes in the environments where `mask` is not True.

        Returns:
            A list of observations. If the environments return (obs, info), a pair of the list of observations and a
            list of infos. The info of an environment that was not reset is an empty dict.

        Raises:
            ValueError: If the length of `mask` is not the number of environments.
        """
        observations: list[Any] = list(self.last_obs) or [None] * self.num_envs
        infos: list[dict[str, Any]] = [{} for _ in self.envs]
        seeds = list(self._seeds) or [None] * self.num_envs
        for i, skip in enumerate(skip_mask(mask, self.num_envs)):
            if skip:
                continue
            arguments = {} if seeds[i] is None else {"seed": seeds[i]}
            seeds[i] = None
            observations[i], info = reset_values(self.envs[i].reset(**arguments))
            self._resets_with_info = info is not None
            infos[i] = info or {}
        self.last_obs, self._seeds = observations, seeds
        return (observations, infos) if self._resets_with_info else observations

    def seed(self, seeds: Any) -> None:
        """Seed the environments. An environment applies its seed immediately or at its next reset.

        Args:
            seeds: One integer for each environment, one integer for all environments, or None to seed no environment.

        Raises:
            ValueError: If the number of seeds is wrong, or if an environment accepts no seed.
        """
        later = list(self._seeds) or [None] * self.num_envs
        for i, seed in enumerate(seed_list(seeds, self.num_envs)):
            if seed is not None and not seed_env(self.envs[i], seed):
                later[i] = seed
        self._seeds = later

    def record(self) -> None:
        """Start to record episodes, so that `saved_state` can save them."""
        self.envs = taped(self.envs)

    def saved_state(self) -> dict[str, Any]:
        """Return the state of the environments as JSON values, for `restore_state`. Call `record` first."""
        return {"episodes": [env.saved_state() for env in self.envs]}

    def restore_state(self, state: Mapping[str, Any]) -> list[Any]:
        """Restore the environments to a saved state. Call `record` first.

        Returns:
            The `RestoreResult` of each environment.
        """
        results = [env.restore_state(each) for env, each in zip(self.envs, state["episodes"], strict=True)]
        self.last_obs = [result.obs for result in results]
        if all(result.exact for result in results):
            self._seeds = ()  # seeds of the constructor's caller belong to the start of the saved run
        return results

    def close(self) -> None:
        """Close every environment that has `close`. Then raise the first error that occurred, if any."""
        close_all(self.envs)
