"""Conservative Offline Model-Based Policy Optimization (Yu et al. 2021, arXiv:2102.08363)."""

import torch
from torch import Tensor

from pfrl_like.agents.offline.cql import CQL
from pfrl_like.batch import Batch

#: Column of `Batch.extra`: which rows a model has imagined, [N], bool.
IMAGINED = "imagined"


def model_based_gap(values: Tensor, log_density: Tensor, data_value: Tensor, imagined: Tensor) -> Tensor:
    """By how much actions drawn in imagined states are valued above those of the data in recorded states.

    The mean over the rows is E_imagined[log sum exp(Q(s, a) - log density(a))] - E_recorded[Q(s, a)]
    (arXiv:2102.08363, eq. 2, with the actions of appendix B). Where all rows are of one kind, they stand for both.

    Args:
        values: Of the actions drawn, [M, N].
        log_density: Of the same under what they were drawn from, [M, N].
        data_value: Of the rows' own actions, [N].
        imagined: Which rows are imagined, [N], bool.

    Returns:
        [N].
    """
    drawn = torch.logsumexp(values - log_density, 0)
    return _in_mean(imagined) * drawn - _in_mean(~imagined) * data_value


def _in_mean(which: Tensor) -> Tensor:
    """Factors [N] by which a mean over all rows becomes one over some rows; 1 if there are none of these."""
    share = which.float().mean()
    return torch.where(share > 0, which / share, 1.0)


class COMBO(CQL):
    """CQL that also learns from what a model imagines, where its critics are held down; up they are held by the data.

    Rows that are imagined are marked in `batch.extra["imagined"]`, as `pfrl_like.dynamics.ModelRollouts` gives them.
    From batches without such marks, online for instance, it learns as `CQL`.

    Args:
        args: As `CQL`.
        kwargs: As `CQL`.

    Raises:
        ValueError: As `CQL`.
        TypeError: As `CQL`.
    """

    def gap(self, values: Tensor, log_density: Tensor, data_value: Tensor, batch: Batch) -> Tensor:
        """`model_based_gap`."""
        if batch.extra is None or IMAGINED not in batch.extra:
            return super().gap(values, log_density, data_value, batch)
        return model_based_gap(values, log_density, data_value, batch.extra[IMAGINED])
