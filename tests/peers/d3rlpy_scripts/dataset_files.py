"""A dataset of the user's arrays with ends that are no terminal states: files, statistics, growth, minibatches."""

import numpy as np
from d3rlpy.dataset import Episode, MDPDataset, Transition, TransitionMiniBatch

steps, rng = 100, np.random.RandomState(0)
observations, actions = rng.random_sample((steps, 3)), rng.random_sample((steps, 2))
terminals, episode_terminals = np.zeros(steps), np.arange(steps) % 20 == 19
dataset = MDPDataset(observations, actions, np.ones(steps), terminals, episode_terminals=episode_terminals)
assert len(dataset) == 5 and dataset.observations.shape == (100, 3)
assert dataset.compute_stats()["reward"]["mean"] == 1

dataset.dump("dataset.h5")
again = MDPDataset.load("dataset.h5")
assert len(again) == 5 and np.allclose(again.actions, dataset.actions)
again.extend(dataset)
assert again.size() == 10 and isinstance(again[0], Episode) and again.get_action_size() == 2

episode = dataset.episodes[1]
batch = TransitionMiniBatch(episode.transitions[:4], n_frames=1, n_steps=3, gamma=0.9)
assert np.allclose(batch.next_observations[0], episode.observations[3])

previous = None
for t in range(3):  # transitions made by hand, linked by hand
    rows = episode.observations[t], episode.actions[t], 1.0, episode.observations[t + 1], episode.actions[t + 1], 1.0
    transition = Transition((3,), 2, *rows, terminal=0, prev_transition=previous)
    if previous is not None:
        previous.next_transition = transition
    previous = transition
assert previous.prev_transition.prev_transition.prev_transition is None
