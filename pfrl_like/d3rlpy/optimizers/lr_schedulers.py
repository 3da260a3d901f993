"""Factories of learning-rate schedulers."""

import dataclasses

from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler

from pfrl_like.d3rlpy.serializable import Config


@dataclasses.dataclass
class LRSchedulerFactory(Config, family=True):
    """Base class of factories of learning-rate schedulers."""

    def create(self, optim: Optimizer) -> LRScheduler:
        """Return a scheduler, which makes one step after each step of the optimiser.

        Args:
            optim: The optimiser.

        Raises:
            NotImplementedError: If the subclass does not define this method.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define create(optim)")


@dataclasses.dataclass
class WarmupSchedulerFactory(LRSchedulerFactory, type_name="warmup"):
    """Learning rate that grows linearly: step t, from 0, uses min((t + 1) / warmup_steps, 1) times the rate.

    Args:
        warmup_steps: Number of steps until the learning rate is reached.
    """

    warmup_steps: int

    def create(self, optim: Optimizer) -> LRScheduler:
        return LambdaLR(optim, lambda step: min((step + 1) / self.warmup_steps, 1))


@dataclasses.dataclass
class CosineAnnealingLRFactory(LRSchedulerFactory, type_name="cosine_annealing"):
    """Learning rate that falls as half a period of a cosine (arXiv:1608.03983, without restarts).

    Args:
        T_max: Number of steps until the minimum.
        eta_min: Minimum learning rate.
        last_epoch: Index of the last step that has been made; -1 at the beginning.
    """

    T_max: int
    eta_min: float = 0.0
    last_epoch: int = -1

    def create(self, optim: Optimizer) -> LRScheduler:
        return CosineAnnealingLR(optim, self.T_max, self.eta_min, self.last_epoch)
