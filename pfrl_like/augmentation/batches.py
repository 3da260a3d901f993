"""Augmentation of whole minibatches, on their way to a learning step."""

from typing import Any

import torch
from torch import Tensor

from pfrl_like.augmentation.pipeline import Augment
from pfrl_like.batch import Batch, concatenate_batches


class BatchAugmentation:
    """Gives a minibatch with its observations changed, several times if asked for: the loss is the mean over them.

    What is changed are scaled observations, which are scaled back for networks that begin with the scaler.

    Args:
        augment: Function of (observations, source of random numbers); None leaves them as they are.
        n_copies: How many times each row comes, each time changed in another way (arXiv:2004.13649).
        scaler: Scaler of the observations, or None.
    """

    def __init__(self, augment: Augment, n_copies: int = 1, scaler: Any = None) -> None:
        self.augment, self.n_copies, self.scaler = augment, n_copies, scaler

    def __call__(self, batch: Batch) -> Batch:
        return concatenate_batches(
            [
                batch.replace(obs=self._changed(batch.obs), next_obs=self._changed(batch.next_obs))
                for _ in range(self.n_copies)
            ]
        )

    @torch.no_grad()
    def _changed(self, obs: Tensor) -> Tensor:
        if self.scaler is None:
            return self.augment(obs, None)
        changed: Tensor = self.scaler.reverse_transform(self.augment(self.scaler.transform(obs), None))
        return changed
