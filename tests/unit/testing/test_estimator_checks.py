"""`check_estimator` finds what is broken, and names it."""

from typing import Any

import numpy as np
import pytest
from estimator_parts import SMALL

from pfrl_like.algos import BC, DQN
from pfrl_like.testing import check_estimator


class Converting(DQN):
    def set_params(self, **params: Any) -> Any:
        super().set_params(**params)
        self.gamma = min(self.gamma, 0.5)
        return self


class Wide(BC):
    def predict(self, x: Any) -> Any:
        return super().predict(x)[None]


class Forgetful(DQN):
    def load_model(self, fname: Any) -> None:
        super().load_model(fname)
        self.reset_optimizer_states()


class Idle(DQN):
    def update(self, epoch: int, total_step: int, batch: Any) -> list[float]:
        return [0.0]


class Silent(DQN):
    def fit(self, *args: Any, **kwargs: Any) -> Any:
        super().fit(*args, **kwargs)


class Random(DQN):
    def fit(self, *args: Any, **kwargs: Any) -> Any:
        np.random.seed()
        return super().fit(*args, **kwargs)


class Chatty(DQN):
    def fit(self, *args: Any, **kwargs: Any) -> Any:
        return super().fit(*args, **kwargs | {"save_metrics": True, "tensorboard": False})


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Converting, "gamma was 0.9 and is 0.5 after construction"),
        (Wide, "predict returned the shape"),
        (Forgetful, "training continued differently"),
        (Idle, "update changed no parameter"),
        (Silent, "fit returned None"),
        (Random, "the same seed resulted in different parameters"),
        (Chatty, "wrote files"),
    ],
)
def test_what_is_broken_is_named(kind: Any, sentence: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def make() -> Any:
        made = kind(**SMALL)
        if kind is Converting:
            made.gamma = 0.9
        return made

    with pytest.raises(AssertionError, match=sentence):
        check_estimator(make)
