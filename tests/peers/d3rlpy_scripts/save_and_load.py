"""Models, hyperparameters and policies in files."""

import os

import numpy as np
import torch
from d3rlpy.algos import DQN
from d3rlpy.datasets import get_cartpole

dataset, _ = get_cartpole()
dqn = DQN(batch_size=32, learning_rate=1e-3, scaler="standard")
dqn.fit(
    dataset.episodes[:3], n_epochs=1, experiment_name="dqn", with_timestamp=False, verbose=False, show_progress=False
)
folder = "d3rlpy_logs/dqn"
(model,) = [name for name in os.listdir(folder) if name.startswith("model_")]

observations = dataset.observations[:20].astype(np.float32)
again = DQN.from_json(f"{folder}/params.json")
again.load_model(f"{folder}/{model}")
assert again.learning_rate == 1e-3 and (again.predict(observations) == dqn.predict(observations)).all()

dqn.save_model("dqn.pt")
dqn2 = DQN()
dqn2.build_with_dataset(dataset)
dqn2.load_model("dqn.pt")
assert (dqn2.predict(observations) == dqn.predict(observations)).all()

dqn.save_policy("policy.pt")
policy = torch.jit.load("policy.pt")
assert (policy(torch.as_tensor(observations)).numpy() == dqn.predict(observations)).all()
