"""Fitted Q evaluation of a trained discrete CQL, and of a continuous CQL."""

import sys

import d3rlpy
import gymnasium
import numpy as np
from d3rlpy.metrics import InitialStateValueEstimationEvaluator, SoftOPCEvaluator
from d3rlpy.ope import FQE, DiscreteFQE, FQEConfig

seed = int(sys.argv[1])
d3rlpy.seed(seed)
rng = np.random.default_rng(seed)


def record(env, policy, n_episodes, n_steps):
    """Record episodes of a policy."""
    columns = {"observations": [], "actions": [], "rewards": [], "terminals": [], "timeouts": []}
    for i in range(n_episodes):
        obs, _ = env.reset(seed=100 * seed + i)
        for t in range(n_steps):
            action = policy(obs)
            next_obs, reward, terminated, _, _ = env.step(action)
            row = (obs, action, reward, terminated, t == n_steps - 1 and not terminated)
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
            obs = next_obs
            if terminated:
                break
    return d3rlpy.dataset.MDPDataset(**{name: np.array(column) for name, column in columns.items()})


def balance(obs):
    """A controller that errs in some steps."""
    return int(rng.integers(2)) if rng.random() < 0.3 else int(obs[2] + 0.3 * obs[3] > 0)


encoder = d3rlpy.models.VectorEncoderFactory([64, 64])
cartpole = record(gymnasium.make("CartPole-v1"), balance, 30, 100)
discrete_cql = d3rlpy.algos.DiscreteCQLConfig(
    batch_size=32, learning_rate=1e-3, gamma=0.9, alpha=2.0, encoder_factory=encoder
).create(device=False)
noop = d3rlpy.logging.NoopAdapterFactory()
discrete_cql.fit(cartpole, n_steps=500, n_steps_per_epoch=500, logger_adapter=noop, show_progress=False)

config = FQEConfig(learning_rate=1e-3, gamma=0.9, target_update_interval=50, encoder_factory=encoder)
discrete_fqe = DiscreteFQE(algo=discrete_cql, config=config, device=False)
threshold = float(np.median([episode.compute_return() for episode in cartpole.episodes]))
discrete_results = discrete_fqe.fit(
    cartpole, n_steps=600, n_steps_per_epoch=300, show_progress=False,
    evaluators={
        "init_value": InitialStateValueEstimationEvaluator(), "soft_opc": SoftOPCEvaluator(return_threshold=threshold),
    },
)  # fmt: skip

pendulum = record(gymnasium.make("Pendulum-v1"), lambda obs: rng.uniform(-2, 2, 1).astype(np.float32), 10, 100)
cql = d3rlpy.algos.CQLConfig(
    batch_size=32, gamma=0.9, n_action_samples=2, actor_learning_rate=1e-3, actor_encoder_factory=encoder,
    critic_encoder_factory=encoder, action_scaler=d3rlpy.preprocessing.MinMaxActionScaler(),
).create()  # fmt: skip
cql.fit(pendulum, n_steps=200, n_steps_per_epoch=200, logger_adapter=noop, show_progress=False)
fqe_config = FQEConfig(
    learning_rate=1e-3, gamma=0.9, batch_size=64, n_critics=2, target_update_interval=50, encoder_factory=encoder,
    action_scaler=cql.action_scaler,
)  # fmt: skip
fqe = FQE(algo=cql, config=fqe_config)
results = fqe.fit(
    pendulum, n_steps=500, n_steps_per_epoch=250, experiment_name="fqe_pendulum", with_timestamp=False,
    show_progress=False, evaluators={"init_value": InitialStateValueEstimationEvaluator(pendulum.episodes)},
)  # fmt: skip

observations, rows = pendulum.episodes[0].observations[:5], cartpole.episodes[0].observations[:5]
# A test reads this; estimated values of the policies are compared as returns are
result = {
    "arrays": {
        "actions": fqe.predict(observations),
        "values": fqe.predict_value(observations, pendulum.episodes[0].actions[:5]),
        "discrete actions": discrete_fqe.predict(rows),
        "discrete values": discrete_fqe.predict_value(rows, discrete_fqe.predict(rows)),
    },
    "metrics": {**results[-1][1], **{f"discrete {name}": value for name, value in discrete_results[-1][1].items()}},
    "returns": [discrete_results[-1][1]["init_value"], results[-1][1]["init_value"]],
}
