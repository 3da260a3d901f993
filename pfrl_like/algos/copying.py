"""What estimators take over from others, and forget."""

from typing import Any

from torch import nn

from pfrl_like.utils.copy_param import copy_param


class Copying:
    """Parameters of another estimator's networks, and optimisers that begin anew."""

    @property
    def _agent(self) -> Any:
        """The agent."""
        raise NotImplementedError

    def copy_policy_from(self, algo: Any) -> None:
        """Take the parameters of another estimator's policy, whose networks are alike; targets follow at once.

        A target takes those of the other one's target, or of its network where there is none.

        Raises:
            NotFittedError: If one of the two is not built yet.
            ValueError: If one has none, or the networks differ.
        """
        self._copy(algo, "policy")

    def copy_q_function_from(self, algo: Any) -> None:
        """Take the parameters of another estimator's Q-functions; otherwise as `copy_policy_from`."""
        self._copy(algo, *self._q_function_names())

    def _q_function_names(self) -> tuple[str, ...]:
        return tuple(getattr(self._agent, "critic_arguments", ("model",)))

    def _copy(self, algo: Any, *names: str) -> None:
        ours, theirs = self._agent, algo._agent
        for name in names:
            own, other = getattr(ours, name, None), getattr(theirs, name, None)
            if own is None or other is None:
                kinds = f"{type(algo).__name__} to {type(self).__name__}"
                raise ValueError(f"{kinds}: expected two estimators that have a {name.replace('_', ' ')}")
            take_from(own, other, name)
            target, other_target = getattr(ours, f"target_{name}", None), getattr(theirs, f"target_{name}", None)
            if target is not None:
                take_from(target, other if other_target is None else other_target, name)

    def reset_optimizer_states(self) -> None:
        """Let all optimisers forget what they keep of earlier steps."""
        reset_optimizers(self._agent)


def take_from(own: nn.Module, other: nn.Module, what: str) -> None:
    """Take the parameters of another network.

    Raises:
        ValueError: If it is of another form, naming what it is.
    """
    try:
        copy_param(own, other)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"algo has a {what.replace('_', ' ')} of another form: {error}") from error


def reset_optimizers(agent: Any) -> None:
    """Let all optimisers of an agent forget what they keep of earlier steps."""
    for step in agent.gradient_steps.values():
        step.optimizer.state.clear()
