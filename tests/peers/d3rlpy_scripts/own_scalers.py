"""Scalers with arguments of the user's own, for observations, actions and rewards."""

import numpy as np
from d3rlpy.algos import BC, TD3
from d3rlpy.datasets import get_pendulum
from d3rlpy.preprocessing import ClipRewardScaler, MinMaxActionScaler, MinMaxScaler, StandardScaler

dataset, env = get_pendulum()
episodes = dataset.episodes[:2]
quiet = dict(n_epochs=1, save_metrics=False, verbose=False, show_progress=False)

scaler = MinMaxScaler(minimum=np.array([-1.0, -1.0, -8.0]), maximum=np.array([1.0, 1.0, 8.0]))
action_scaler = MinMaxActionScaler(minimum=env.action_space.low, maximum=env.action_space.high)
td3 = TD3(scaler=scaler, action_scaler=action_scaler, reward_scaler=ClipRewardScaler(-1.0, 1.0), batch_size=32)
td3.fit(episodes, **quiet)
assert td3.scaler.get_type() == "min_max" and td3.predict(episodes[0].observations).shape == episodes[0].actions.shape

standard = StandardScaler(mean=dataset.observations.mean(0), std=dataset.observations.std(0))
bc = BC(scaler=standard, batch_size=32)
bc.fit(episodes, **quiet)
assert np.abs(bc.predict(episodes[0].observations)).max() <= 1
