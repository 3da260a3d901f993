"""Models in files: everything, parameters, hyperparameters; what predictions look like."""

import sys

import d3rlpy
import numpy as np

seed = int(sys.argv[1])
d3rlpy.seed(seed)
rng = np.random.default_rng(seed)
n = 60
columns = {
    "observations": rng.normal(size=(n, 3)).astype(np.float32),
    "rewards": rng.normal(size=n).astype(np.float32),
    "terminals": np.arange(1, n + 1) % 20 == 0,
}
continuous = d3rlpy.dataset.MDPDataset(actions=rng.uniform(-2, 2, (n, 2)).astype(np.float32), **columns)
discrete = d3rlpy.dataset.MDPDataset(actions=rng.integers(4, size=n), **columns)
encoder = d3rlpy.models.VectorEncoderFactory([16, 16], activation="tanh")
scaler = d3rlpy.preprocessing.StandardObservationScaler()
both = {"actor_encoder_factory": encoder, "critic_encoder_factory": encoder, "observation_scaler": scaler}
algos = {
    "dqn": (d3rlpy.algos.DQNConfig(batch_size=8, encoder_factory=encoder, observation_scaler=scaler), discrete),
    "sac": (d3rlpy.algos.SACConfig(batch_size=8, **both), continuous),
    "td3": (d3rlpy.algos.TD3Config(batch_size=8, n_critics=3, **both), continuous),
    "dsac": (d3rlpy.algos.DiscreteSACConfig(batch_size=8, **both), discrete),
    "bc": (d3rlpy.algos.BCConfig(batch_size=8, policy_type="stochastic", encoder_factory=encoder), continuous),
}

arrays, steps = {}, []
x = columns["observations"][:7]
for name, (config, dataset) in algos.items():
    algo = config.create(device=False)
    algo.build_with_dataset(dataset)
    algo.fit(dataset, n_steps=4, n_steps_per_epoch=2, experiment_name=name, with_timestamp=False, show_progress=False)
    folder = f"d3rlpy_logs/{name}"

    algo.save(f"{name}.d3")
    algo.save_model(f"{name}.pt")
    loaded = d3rlpy.load_learnable(f"{name}.d3")
    from_json = type(algo).from_json(f"{folder}/params.json")
    from_json.load_model(f"{name}.pt")
    rebuilt = config.create()
    rebuilt.build_with_dataset(dataset)
    rebuilt.load_model(f"{name}.pt")
    epoch = d3rlpy.load_learnable(f"{folder}/model_4.d3", device="cpu:0")

    actions = algo.predict(x)
    for other in (loaded, from_json, rebuilt, epoch):
        assert np.array_equal(other.predict(x), actions)
        steps.append(other.grad_step)
    arrays[f"{name} predict"] = actions
    arrays[f"{name} sample"] = algo.sample_action(x)
    if name != "bc":
        values = algo.predict_value(x, actions)
        assert np.array_equal(loaded.predict_value(x, actions), values)
        arrays[f"{name} value"] = values
        recorded = dataset.episodes[0].actions[:7]
        arrays[f"{name} recorded value"] = loaded.predict_value(x, recorded)
    assert type(loaded) is type(algo) and loaded.action_size == algo.action_size
    loaded.fit(dataset, n_steps=2, n_steps_per_epoch=2, experiment_name=f"{name}_more", with_timestamp=False)

# A test reads this
result = {
    "arrays": arrays,
    "values": {
        "steps": np.array(steps), "scaled": scaler.transform_numpy(x), "shape": np.array(loaded.observation_shape),
        "batch sizes": np.array([loaded.batch_size, algo.impl.action_size]),
    },
}  # fmt: skip
