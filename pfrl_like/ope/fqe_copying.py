"""What fitted Q evaluation takes over from others: parameters of critics, the state of their optimiser, a policy."""

import copy
from typing import Any, ClassVar

from pfrl_like.algos.copying import reset_optimizers, take_from
from pfrl_like.ope.policies import agent_of, policy_of


class CopyingFQE:
    """Copies of what others have learnt."""

    discrete_action: ClassVar[bool]
    agent: Any
    action_size: Any

    def copy_policy_from(self, algo: Any) -> None:
        """Evaluate another algorithm's policy with networks alike: a copy of it; `algo` keeps its own.

        Raises:
            ValueError: If the networks differ.
        """
        discrete = self.action_size if self.discrete_action else None
        other = algo.agent.policy if isinstance(algo, CopyingFQE) else policy_of(algo, discrete)
        own = copy.deepcopy(self.agent.policy)
        take_from(own, other, "policy")
        self.agent.policy = own

    def copy_policy_optim_from(self, algo: Any) -> None:
        """Refuse: the policy does not learn, and has no optimiser.

        Raises:
            ValueError: Always.
        """
        raise ValueError(f"{type(self).__name__} evaluates a policy that does not learn, and has no optimiser of one")

    def copy_q_function_from(self, algo: Any) -> None:
        """Take the parameters of the critics of another one, or of an agent or estimator; targets follow at once.

        Raises:
            ValueError: If the networks differ.
        """
        for own, target, other in zip(
            self.agent.critics, self.agent.target_critics, _critics_of(algo, len(self.agent.critics)), strict=True
        ):
            take_from(own, other, "Q-function")
            take_from(target, other, "Q-function")

    def copy_q_function_optim_from(self, algo: Any) -> None:
        """Take the state of the optimiser of the critics.

        Raises:
            ValueError: If it is one of other networks.
        """
        optimizer = getattr(agent_of(algo), "q_func1_optimizer", None) or getattr(agent_of(algo), "optimizer", None)
        if optimizer is None:
            raise ValueError(f"algo is a {type(algo).__name__}, which has no optimiser of a Q-function")
        own = self.agent.q_func1_optimizer
        ours, theirs = ([len(group["params"]) for group in each.param_groups] for each in (own, optimizer))
        if ours != theirs:
            raise ValueError(f"algo has an optimiser of {theirs} tensors, expected one of {ours}")
        own.load_state_dict(optimizer.state_dict())

    def reset_optimizer_states(self) -> None:
        """Let the optimiser forget what it keeps of earlier steps."""
        reset_optimizers(self.agent)


def _critics_of(algo: Any, count: int) -> list[Any]:
    agent = agent_of(algo)
    critics = getattr(agent, "critics", None) or [agent.model]
    if len(critics) != count:
        raise ValueError(f"algo has {len(critics)} Q-functions, expected {count}")
    return [*critics]
