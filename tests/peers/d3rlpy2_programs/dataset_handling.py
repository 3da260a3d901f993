"""Episodes, transitions, trajectories and buffers; datasets in files."""

import sys

import d3rlpy
import numpy as np
from d3rlpy.dataset import (
    BasicTransitionPicker,
    Episode,
    FIFOBuffer,
    InfiniteBuffer,
    MDPDataset,
    ReplayBuffer,
    create_fifo_replay_buffer,
    create_infinite_replay_buffer,
)

seed = int(sys.argv[1])
d3rlpy.seed(seed)
rng = np.random.default_rng(seed)
n = 30
observations = rng.normal(size=(n, 2)).astype(np.float32)
actions = rng.integers(3, size=n)
rewards = np.arange(n, dtype=np.float32)
terminals, timeouts = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
terminals[[9, 23]] = True
timeouts[[16, 29]] = True

dataset = MDPDataset(observations, actions, rewards, terminals, timeouts)
values = {
    "sizes": np.array([dataset.size(), dataset.transition_count, dataset.dataset_info.action_size]),
    "episodes": np.array([[e.size(), e.transition_count, len(e), e.terminated] for e in dataset.episodes]),
    "returns": np.array([episode.compute_return() for episode in dataset.episodes]),
    "columns": np.concatenate([episode.rewards for episode in dataset.episodes]),
    "actions": dataset.episodes[1].actions,
}


def keep(name, transition):
    """Keep the columns of a transition or a minibatch."""
    values[f"{name} reward"] = np.asarray(transition.reward)
    values[f"{name} next"] = np.asarray(transition.next_observation)
    values[f"{name} next action"] = np.asarray(transition.next_action)
    values[f"{name} end"] = np.array([transition.terminal, transition.interval])
    values[f"{name} to go"] = np.asarray(transition.rewards_to_go)


picker = BasicTransitionPicker()
keep("first", picker(dataset.episodes[0], 0))
keep("last", picker(dataset.episodes[0], 9))
keep("before timeout", picker(dataset.episodes[1], dataset.episodes[1].transition_count - 1))
d3rlpy.seed(seed)  # a dataset that is made may draw numbers, too
keep("sampled", dataset.sample_transition())

batch = dataset.sample_transition_batch(6)
for name in ("observations", "actions", "rewards", "next_observations", "next_actions", "terminals", "intervals"):
    values[f"batch {name}"] = getattr(batch, name)
values["batch length"] = np.array([len(batch), len(batch.transitions)])
trajectory = dataset.sample_trajectory(12)
for name in ("observations", "actions", "rewards", "returns_to_go", "terminals", "timesteps", "masks"):
    values[f"trajectory {name}"] = getattr(trajectory, name)
trajectories = dataset.sample_trajectory_batch(4, 5)
for name in ("observations", "actions", "rewards", "returns_to_go", "terminals", "timesteps", "masks"):
    values[f"trajectories {name}"] = getattr(trajectories, name)
values["trajectories length"] = np.array([len(trajectories), trajectories.length])

with open("dataset.h5", "w+b") as file:
    dataset.dump(file)
with open("dataset.h5", "rb") as file:
    loaded = ReplayBuffer.load(file, InfiniteBuffer())
values["loaded"] = np.concatenate([episode.observations for episode in loaded.episodes])
values["loaded ends"] = np.array([episode.terminated for episode in loaded.episodes])

half = create_infinite_replay_buffer(episodes=dataset.episodes[:2])
half.append_episode(dataset.episodes[3])
values["half"] = np.array([half.size(), half.transition_count])

short = ReplayBuffer(FIFOBuffer(limit=8), episodes=dataset.episodes)
fifo = create_fifo_replay_buffer(limit=8, episodes=dataset.episodes[:1])
counts = []
for t in range(14):
    fifo.append(observations[t], actions[t], float(rewards[t]))
    counts.append([fifo.size(), fifo.transition_count, len(fifo.buffer)])
    if t in (4, 9):
        fifo.clip_episode(terminated=t == 4)
        counts.append([fifo.size(), fifo.transition_count, len(fifo.buffer)])
fifo.clip_episode(False)
values["counts"] = np.array(counts)
values["fifo"] = np.array([short.size(), short.transition_count, fifo.size(), fifo.transition_count])
kept = [picker(*fifo.buffer[i]) for i in range(fifo.transition_count)]
values["fifo rewards"] = np.array([transition.reward for transition in kept])
values["fifo terminals"] = np.array([transition.terminal for transition in kept])

episode = Episode(observations[:4], actions[:4].reshape(-1, 1), rewards[:4].reshape(-1, 1), terminated=False)
copy = Episode.deserialize(episode.serialize())
values["copy"] = np.array([copy.size(), copy.transition_count, copy.compute_return()])
for name in ("observation_signature", "action_signature", "reward_signature"):
    signature = getattr(copy, name)
    values[f"copy {name}"] = np.array([str(signature.dtype), str(signature.shape)])

# A test reads this
result = {"values": values}
