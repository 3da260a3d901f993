"""What estimators take over from others, and forget."""

from typing import Any


class Copying:
    """Parameters of another estimator's networks, and optimisers that begin anew."""

    @property
    def _agent(self) -> Any:
        """The agent."""
        raise NotImplementedError

    def copy_policy_from(self, algo: Any) -> None:
        """Take the parameters of another estimator's policy, whose networks are alike; targets follow at once."""
        self._copy(algo, "policy", "target_policy")

    def copy_q_function_from(self, algo: Any) -> None:
        """Take the parameters of another estimator's Q-functions; otherwise as `copy_policy_from`."""
        names = self._q_function_names()
        self._copy(algo, *names, *(f"target_{name}" for name in names))

    def _q_function_names(self) -> tuple[str, ...]:
        return tuple(getattr(self._agent, "critic_arguments", ("model",)))

    def _copy(self, algo: Any, *names: str) -> None:
        ours, theirs = self._agent, algo._agent
        pairs = [(getattr(ours, name, None), getattr(theirs, name, None)) for name in names]
        if pairs[0][0] is None or pairs[0][1] is None:
            kinds = f"{type(algo).__name__} to {type(self).__name__}"
            raise ValueError(f"{kinds}: expected two estimators that have a {names[0].replace('_', ' ')}")
        for own, other in pairs:
            if own is not None and other is not None:
                own.load_state_dict(other.state_dict())

    def reset_optimizer_states(self) -> None:
        """Let all optimisers forget what they keep of earlier steps."""
        reset_optimizers(self._agent)


def reset_optimizers(agent: Any) -> None:
    """Let all optimisers of an agent forget what they keep of earlier steps."""
    for step in agent.gradient_steps.values():
        step.optimizer.state.clear()
