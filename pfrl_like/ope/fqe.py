"""`FQE` and `DiscreteFQE`: fitted Q evaluation of a trained algorithm, with the interface of its document."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from pfrl_like.algos.fitting.minibatches import fitting_batch
from pfrl_like.batch import Batch
from pfrl_like.dataset import TransitionMiniBatch
from pfrl_like.errors import NotFittedError
from pfrl_like.ope.fqe_building import BuildingFQE
from pfrl_like.ope.fqe_config import FQEConfig, config_of
from pfrl_like.ope.fqe_copying import CopyingFQE
from pfrl_like.ope.fqe_fitting import FittingFQE
from pfrl_like.ope.fqe_judging import JudgingFQE
from pfrl_like.ope.fqe_kind import kind_told_by
from pfrl_like.ope.fqe_online import OnlineFQE
from pfrl_like.ope.fqe_saving import SavedFQE
from pfrl_like.preprocessing import Scaler
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.device import resolve_device


class FQE(BuildingFQE, FittingFQE, OnlineFQE, JudgingFQE, CopyingFQE, SavedFQE):
    """Fitted Q evaluation: how good a trained algorithm is, learnt from recorded data.

    Whether actions are discrete is known from an estimator, and from many agents; otherwise the data or the environment
    decide that it is built for.

    What the algorithm does in evaluation is evaluated: the modes of its policy, or samples if it is an agent that does
    not `act_deterministically`; for samples of a policy alone, a module, set `fqe.agent.act_deterministically = False`
    once it is built. The algorithm is not changed. The learning itself is that of `agents.FittedQEvaluation`.

    Where the algorithm has `n_frames`, images of data and environments are stacked as it has them; `predict` and the
    like take stacked ones, and replay buffers hold single ones, as `collect` stores them. A recurrent agent is refused:
    what it does depends on more than an observation, so that minibatches have to be sequences, which
    `agents.FittedQEvaluation` learns from.

    Args:
        algo: An agent, a built estimator, or anything with `predict` of raw observations.
        config: Hyperparameters; None for an `FQEConfig` as it is by default.
        device: False for the CPU, True for the first GPU, the number of one, or a name that torch knows.
        impl: An agent to learn with, in the place of one that is built.

    Attributes:
        discrete_action: Whether actions are discrete; None as long as that is not known.

    Raises:
        ValueError: On hyperparameters that cannot be, or a device that is not there.
        TypeError: If `config` is no `FQEConfig`, or a number is none.
    """

    #: Whether actions have to be discrete; None for either kind.
    only: ClassVar[bool | None] = None
    #: Metrics of an update, as estimators have them.
    loss_names: ClassVar[Mapping[str, str]] = {"loss": "loss"}

    def __init__(
        self, algo: Any, config: FQEConfig | None = None, device: bool | int | str = False, impl: Any = None
    ) -> None:
        self._algo, self._config = algo, config_of(config)
        self.discrete_action = kind_told_by(impl, algo) if self.only is None else self.only
        self._config.check(bool(self.discrete_action))
        self._device = _device_of(device)
        self._impl = impl
        self._shape: tuple[int, ...] | None = None
        self._action_size: int | None = None
        self.n_frames = int(getattr(algo, "n_frames", 1))
        self.scalers: dict[str, Scaler | None] = self._config.made_scalers()

    # What it is made of

    @property
    def algo(self) -> Any:
        """What is evaluated."""
        return self._algo

    @property
    def config(self) -> FQEConfig:
        """The hyperparameters."""
        return self._config

    @property
    def impl(self) -> Any:
        """The agent that learns; None before it is built."""
        return self._impl

    @property
    def agent(self) -> Any:
        """The same.

        Raises:
            NotFittedError: Before it is built.
        """
        if self._impl is None:
            raise NotFittedError(f"{type(self).__name__} is not built yet: call fit, create_impl or build_with_dataset")
        return self._impl

    @property
    def observation_shape(self) -> tuple[int, ...] | None:
        """Shape of an observation, frames not stacked; None before it is built."""
        return self._shape

    @property
    def action_size(self) -> int | None:
        """Numbers of an action, or how many discrete actions there are; None before it is built."""
        return self._action_size

    @property
    def batch_size(self) -> int:
        """Transitions of a minibatch."""
        return self._config.batch_size

    @property
    def gamma(self) -> float:
        """Discount factor per step."""
        return self._config.gamma

    @property
    def observation_scaler(self) -> Scaler | None:
        """What observations pass on their way into the critics."""
        return self.scalers["observation_scaler"]

    @property
    def action_scaler(self) -> Scaler | None:
        """What actions pass on their way into the critics."""
        return self.scalers["action_scaler"]

    @property
    def reward_scaler(self) -> Scaler | None:
        """What rewards pass before they are learnt from."""
        return self.scalers["reward_scaler"]

    @property
    def grad_step(self) -> int:
        """Updates so far, of all fittings."""
        return 0 if self._impl is None else int(self._impl.optim_t)

    @property
    def need_returns_to_go(self) -> bool:
        """Whether returns are learnt from: they are not."""
        return False

    def set_grad_step(self, grad_step: int) -> None:
        """Count updates from here on; the targets move when the count is a multiple of `target_update_interval`."""
        check_counts(least=0, grad_step=grad_step)
        self.agent.count_updates_from(grad_step)

    # Learning

    def update(self, batch: TransitionMiniBatch | Batch) -> dict[str, float]:
        """Learn once.

        Args:
            batch: The minibatch.

        Returns:
            The metrics.

        Raises:
            NotFittedError: Before it is built.
            TypeError: If it is no minibatch, or has actions of the other kind.
            ValueError: If observations or actions have another shape, or there is no such discrete action.
            NonFiniteError: If a loss, or a number of an action, is NaN or infinite.
        """
        fitting = fitting_batch(self, self.agent, batch)
        self._learnt = self._learn(0, self.grad_step, fitting)
        return {name: float(value) for name, value in self._learnt[1].items()}

    def _learn(self, epoch: int, total_step: int, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """`update`, as of an estimator: with the TD errors, [N], and with metrics where they are."""
        scaler = self.reward_scaler
        batch = batch if scaler is None else batch.replace(reward=scaler.transform(batch.reward))
        td_error, stats = self.agent.update(batch)
        return td_error, {name: stats[key] for name, key in self.loss_names.items()}


class DiscreteFQE(FQE):
    """`FQE` that takes discrete actions alone."""

    only: ClassVar[bool | None] = True
    #: What has actions of the other kind.
    instead: ClassVar[str] = "FQE"


def _device_of(device: bool | int | str) -> torch.device:
    if isinstance(device, bool):
        return resolve_device(0 if device else None, None)
    return resolve_device(device, None) if isinstance(device, int) else resolve_device(None, device)
