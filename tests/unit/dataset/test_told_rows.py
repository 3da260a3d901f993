"""What nobody told, and something stands in for, is not learnt from."""

from typing import Any

import numpy as np
import pytest
from dataset_parts import next_row

from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.selection import Selection
from pfrl_like.metrics.scorer import dynamics_observation_prediction_error_scorer as observation_error
from pfrl_like.preprocessing import MinMaxActionScaler, MinMaxRewardScaler, MinMaxScaler


def dataset(terminal: Any) -> MDPDataset:
    obs, actions = np.array([[5.0], [6.0], [7.0], [9.0]], np.float32), np.array([[2.0], [3.0], [4.0], [3.0]])
    return MDPDataset.from_arrays(obs, actions.astype(np.float32), [10.0, 11.0, 12.0, 11.0], terminal)


def test_scalers_are_fitted_to_what_was_told() -> None:
    both = dataset([0, 1, 0, 1])
    action, reward, obs = MinMaxActionScaler(), MinMaxRewardScaler(), MinMaxScaler()
    for scaler in (action, reward, obs):
        scaler.fit(both.episodes)
    assert (float(action.minimum[0]), float(action.maximum[0])) == (2.0, 4.0)
    assert (float(reward.minimum), float(reward.maximum)) == (10.0, 12.0)
    assert (float(obs.minimum[0]), float(obs.maximum[0])) == (5.0, 9.0)
    stats = both.compute_stats()
    for column in ("observations", "actions", "rewards"):
        told = np.concatenate([episode.known_values(column) for episode in both.episodes])
        assert told.mean() == pytest.approx(float(np.mean(stats[column[:-1]]["mean"])))


def test_what_the_user_told_counts() -> None:
    whole = next_row(np.zeros((3, 1), np.float32), np.array([[1.0], [2.0], [9.0]], np.float32), [7.0, 1, 2], [0, 0, 1])
    (episode,) = whole.episodes
    assert episode.known_values("actions").tolist() == [[1.0], [2.0], [9.0]]
    assert episode.known_values("rewards").tolist() == [7.0, 1.0, 2.0]
    assert len(episode.known_values("observations")) == 3
    assert len(Selection(whole, told_next=True)) == 2


def test_next_observations_are_learnt_where_they_were_told() -> None:
    both = dataset([0, 1, 0, 0])
    chosen = Selection(both, told_next=True)
    batch = chosen.batch(np.arange(len(chosen)))
    assert batch.obs.tolist() == [[5.0], [7.0]] and batch.next_obs.tolist() == [[6.0], [9.0]]
    assert len(Selection(both)) == 3
    with pytest.raises(ValueError, match="ends in a terminal state"):
        Selection(dataset([1, 1, 1, 1]), told_next=True)


def test_predictions_of_what_was_not_told_are_not_scored() -> None:
    class Model:
        def predict(self, x: Any, action: Any) -> Any:
            return np.asarray(x) + 1.0, np.zeros(len(x))

    assert observation_error(Model(), dataset([0, 1, 0, 0]).episodes) == pytest.approx(-0.5)  # 0 and 1
    with pytest.raises(ValueError, match="has a recorded next observation"):
        observation_error(Model(), dataset([1, 1, 1, 1]).episodes)
