"""Actor that selects actions with a Q-function and sends its steps to a learner through a pipe."""

import logging
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch

from pfrl_like.agents.dqn import DQN
from pfrl_like.distributed.actor import Actor
from pfrl_like.explorer import Explorer
from pfrl_like.learning import HookType
from pfrl_like.replay_buffers import EpisodicReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states


class StateQFunctionActor(Actor, metaclass=HookType):
    """Actor that acts like a `DQN` with the same Q-function and explorer. The actor does not learn.

    Args:
        pipe: Connection to the process of the learner; see `Actor`.
        model: Module from observations to an `ActionValue`. The actor uses the module itself, not a copy, on the CPU.
        explorer: Explorer that selects the training action.
        phi: Feature extractor applied to each observation. The actor sends raw observations.
        recurrent: True if the Q-function has the interface of `pfrl_like.nn.Recurrent`.
        logger: Logger. The actor logs an error if the learner closes its end of the pipe.
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        episodic_update_len: The actor sends one recurrent state every `episodic_update_len` steps. If None, it sends
            only the first recurrent state of each episode.

    Raises:
        TypeError: If an argument has the wrong type or does not match another argument.
    """

    def __init__(
        self,
        pipe: Any,
        model: torch.nn.Module,
        explorer: Explorer,
        phi: Callable[[Any], Any] | None = None,
        recurrent: bool = False,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        *,
        episodic_update_len: int | None = None,
    ) -> None:
        agent = DQN(
            model, torch.optim.SGD(model.parameters(), lr=0.0), EpisodicReplayBuffer(), 1.0, explorer, phi=phi,
            recurrent=recurrent, logger=logger, batch_states=batch_states, episodic_update_len=episodic_update_len,
        )  # fmt: skip
        acting = agent.acting_copy()
        acting.model, acting.explorer = model, explorer
        super().__init__(acting, pipe)

    model, phi, batch_states = (property(attrgetter(f"_acting.{name}")) for name in ("model", "phi", "batch_states"))

    @property
    def device(self) -> torch.device:
        """Device of the Q-function."""
        return next(self._acting.model.parameters()).device  # type: ignore[no-any-return]
