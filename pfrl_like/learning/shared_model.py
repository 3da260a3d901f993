"""How an agent learns parameters that several processes share: with a copy of its own, and without a lock."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pfrl_like.agent import AsyncAgent, AttributeSavingMixin
from pfrl_like.optimizers.gradient_step import GradientStep
from pfrl_like.utils.copy_param import copy_param

#: What is made anew where an agent arrives.
_OF_ONE_PROCESS = frozenset(["model", "_gradient_step", "_shared_buffers", "_last_distribution"])


class SharedModelMixin(AttributeSavingMixin, AsyncAgent):
    """A copy of a model computes the gradients that move the shared one, and follows it (arXiv:1602.01783, S3).

    Attributes:
        shared_model: The model that all processes share.
        model: The copy of this process.
    """

    process_idx: int | None = None
    saved_attributes: tuple[str, ...] = ("model", "optimizer")

    optimizer: torch.optim.Optimizer
    max_grad_norm: Any
    _gradient_step: GradientStep | None = None
    _shared_buffers: Sequence[tuple[Tensor, Tensor]] = ()

    def share_model(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Take a model to share, with the optimiser of its parameters, and make a copy of it."""
        self._shared_model = model
        self.optimizer = optimizer
        self.model = copy.deepcopy(model)

    @property
    def shared_attributes(self) -> tuple[str, ...]:
        """The model and the optimiser."""
        return ("shared_model", "optimizer")

    @property
    def shared_model(self) -> torch.nn.Module:
        """The model that all processes share; the copy follows when it is replaced."""
        return self._shared_model

    @shared_model.setter
    def shared_model(self, model: torch.nn.Module) -> None:
        self._shared_model = model
        self._gradient_step = None
        copy_param(self.model, model)

    def sync_parameters(self) -> None:
        """Copy the shared parameters to the model that acts."""
        copy_param(self.model, self._shared_model)

    def assert_shared_memory(self) -> None:
        """See that all processes, if there are several, move the same parameters, and each acts with its own.

        Raises:
            AssertionError: If some tensors of the shared model or its optimiser are in shared memory and others are
                not, or the copy's are. Where none is, the agent trains alone.
        """
        states = self.optimizer.state_dict()["state"].values()
        shared = [*self._shared_model.state_dict().values()]
        shared += [value for state in states for value in state.values() if isinstance(value, Tensor)]
        if any(value.is_shared() for value in shared):
            assert all(value.is_shared() for value in shared), "shared_model or optimizer is not all in shared memory"
        assert not any(value.is_shared() for value in self.model.state_dict().values()), "model is in shared memory"

    def step_shared(self, loss: Tensor) -> None:
        """Move the shared parameters by the gradient of a loss of the copy, which follows them.

        Raises:
            NonFiniteError: If the loss or the gradient is NaN or infinite; nothing was changed.
        """
        step = self._gradient_step
        if step is None or step.optimizer is not self.optimizer or step.max_grad_norm != self.max_grad_norm:
            step = self._make_gradient_step()
        step(loss)
        for shared, own in self._shared_buffers:
            shared.copy_(own)  # such as running moments
        self.sync_parameters()

    def _make_gradient_step(self) -> GradientStep:
        shared, own = self._shared_model, self.model
        params = [param for group in self.optimizer.param_groups for param in group["params"]]
        copies: dict[Tensor, Tensor] = {param: param for param in params}  # of those that are none of the model's
        copies |= dict(zip(shared.parameters(), own.parameters(), strict=True))
        self._shared_buffers = list(zip(shared.buffers(), own.buffers(), strict=True))
        self._gradient_step = GradientStep(self.optimizer, self.max_grad_norm, copies=copies)
        return self._gradient_step

    def __getstate__(self) -> dict[str, Any]:
        """All but the copy: tensors that are sent to another process are moved into memory that is shared with it."""
        return {name: value for name, value in vars(self).items() if name not in _OF_ONE_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.model = copy.deepcopy(self._shared_model)

    def load(self, dirname: Any) -> None:
        """Load what `save`, or PFRL, has saved, into the shared parameters, too; see `AttributeSavingMixin`."""
        super().load(dirname)
        copy_param(self._shared_model, self.model)

    def load_state_dict(self, state_dict: Any) -> None:
        """Load what `state_dict` gave, into the shared parameters, too; see `AttributeSavingMixin`."""
        super().load_state_dict(state_dict)
        copy_param(self._shared_model, self.model)
