"""What fitted Q evaluation takes over from others: parameters of critics, the state of their optimiser, a policy."""

import copy
from typing import Any

from torch import nn

from pfrl_like.action_value import ActionValue
from pfrl_like.algos.fitting.saving import check_form, reset_optimizers, take_from, take_states_of
from pfrl_like.ope.policies import ActingPolicy, agent_of, evaluates_modes, lying_on, policy_of


class CopyingFQE:
    """Copies of what others have learnt."""

    discrete_action: bool | None
    agent: Any
    action_size: Any
    algo: Any

    def copy_policy_from(self, algo: Any) -> None:
        """Evaluate another algorithm with networks alike from here on: a copy of it, which files have, too.

        Raises:
            ValueError: If the networks of the policies differ, or the other agent has another `phi`, or one of the two
                algorithms chooses in a way of its own, as `BCQ` and `BEAR` do.
        """
        other, acting = algo, agent_of(algo)
        if isinstance(algo, CopyingFQE):
            other, acting = algo.agent.policy if algo.algo is None else algo.algo, algo.agent
        buffer = getattr(agent_of(other), "replay_buffer", None)
        own = copy.deepcopy(other, {id(buffer): buffer})  # which may be large, and is not looked at
        policy = policy_of(own, self.action_size if self.discrete_action else None)
        for each, asked in ((self.agent.policy, self.algo), (policy, other)):
            if isinstance(each, ActingPolicy):
                raise ValueError(
                    f"{type(asked).__name__} chooses in a way of its own, not by one network alone, which could be "
                    "copied: make an FQE of the other algorithm"
                )
        if getattr(acting, "phi", self.agent.phi) != self.agent.phi:
            raise ValueError("algo has another phi, through which the critics do not see: make an FQE of it")
        check_form(self.agent.policy, policy, "policy")
        self.agent.policy, self._algo = lying_on(self.agent.device, policy), own
        self.agent.act_deterministically = evaluates_modes(acting)

    def copy_policy_optim_from(self, algo: Any) -> None:
        """Refuse: the policy does not learn, and has no optimiser.

        Raises:
            ValueError: Always.
        """
        raise ValueError(f"{type(self).__name__} evaluates a policy that does not learn, and has no optimiser of one")

    def copy_q_function_from(self, algo: Any) -> None:
        """Take the parameters of the critics of another one, or of an agent or estimator; targets follow at once.

        Raises:
            ValueError: If it has no Q-function, or networks that differ; all of them stay as they were.
        """
        critics = [*self.agent.critics]
        theirs = nn.ModuleList(_critics_of(algo, len(critics)))
        for own in (critics, self.agent.target_critics):
            take_from(nn.ModuleList(own), theirs, "Q-function")

    def copy_q_function_optim_from(self, algo: Any) -> None:
        """Take what the optimiser of the critics keeps of earlier steps; learning rates and the like stay.

        Raises:
            ValueError: If it has no Q-function, networks that differ, or an optimiser of another class; the state stays
                as it was.
        """
        critics = [*self.agent.critics]
        pairs = [*zip(critics, _critics_of(algo, len(critics)), strict=True)]
        take_states_of(self.agent, agent_of(algo), pairs, "Q-function")

    def reset_optimizer_states(self) -> None:
        """Let the optimiser forget what it keeps of earlier steps."""
        reset_optimizers(self.agent)


def _critics_of(algo: Any, count: int) -> list[nn.Module]:
    agent = agent_of(algo)
    critics = getattr(agent, "critics", ())
    if not critics and issubclass(getattr(agent, "value_type", object), ActionValue):
        critics = [agent.model]
    if not critics:
        raise ValueError(f"algo is a {type(algo).__name__}, which has no Q-function")
    if len(critics) != count:
        raise ValueError(f"algo has {len(critics)} Q-functions, expected {count}")
    return [*critics]
