"""Conservative Offline Model-Based Policy Optimization (Yu et al. 2021, arXiv:2102.08363)."""

import torch
from torch import Tensor

from pfrl_like.agents.offline.cql import CQL
from pfrl_like.batch import Batch

#: Column of `Batch.extra`: True in rows that a model of the environment imagined, [N], bool.
IMAGINED = "imagined"


def model_based_gap(values: Tensor, log_density: Tensor, data_value: Tensor, imagined: Tensor) -> Tensor:
    """Gap between the values of actions drawn in imagined states and of the data's actions in recorded states.

    The mean over the rows is E_imagined[log sum exp(Q(s, a) - log density(a))] - E_recorded[Q(s, a)]
    (arXiv:2102.08363, eq. 2, with the actions of appendix B). If all rows are of one kind, both means are over all
    rows.

    Args:
        values: Q of the drawn actions, [M, N].
        log_density: Log-densities of the drawn actions under the distributions that they were drawn from, [M, N].
        data_value: Q of the rows' own actions, [N].
        imagined: True in imagined rows, [N], bool.

    Returns:
        The gap of each row, [N].
    """
    drawn = torch.logsumexp(values - log_density, 0)
    return _in_mean(imagined) * drawn - _in_mean(~imagined) * data_value


def _in_mean(which: Tensor) -> Tensor:
    """Factors [N] that turn a mean over all rows into one over the selected rows; 1 if no row is selected."""
    share = which.float().mean()
    return torch.where(share > 0, which / share, 1.0)


class COMBO(CQL):
    """CQL on recorded and imagined data: lowers values in imagined states, and raises those of recorded actions.

    `batch.extra["imagined"]` marks imagined rows, as `pfrl_like.dynamics.ModelRollouts` does. From batches without such
    marks, for instance online, the agent learns as `CQL`.

    Args:
        args: As `CQL`.
        kwargs: As `CQL`.

    Raises:
        ValueError: On values outside those named in `CQL`, with the value got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    def _gap(self, values: Tensor, log_density: Tensor, data_value: Tensor, batch: Batch) -> Tensor:
        """`model_based_gap`; the gap of `CQL` for batches without marks."""
        if batch.extra is None or IMAGINED not in batch.extra:
            return super()._gap(values, log_density, data_value, batch)
        return model_based_gap(values, log_density, data_value, batch.extra[IMAGINED])
