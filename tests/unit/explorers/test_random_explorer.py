from typing import Any

import numpy as np
import pytest

from pfrl_like.explorers import AdditiveGaussian, AdditiveOU


@pytest.mark.parametrize("explorer", [AdditiveGaussian(0.5), AdditiveOU()], ids=lambda made: type(made).__name__)
def test_noise_on_integers_is_refused_with_a_way_out(explorer: Any) -> None:
    message = f"greedy actions have dtype int64, but {type(explorer).__name__} adds noise .* epsilon-greedy explorers"
    with pytest.raises(TypeError, match=message):
        explorer.select_actions(0, np.array([0, 1]))
    with pytest.raises(TypeError, match=message):
        explorer.select_action(0, lambda: np.int64(1))
