"""Offline training, then online: CQL hands its networks to SAC; IQL goes on with its dataset as the buffer."""

import sys

import d3rlpy
import gymnasium as gym
import numpy as np
from d3rlpy.algos import CQLConfig, IQLConfig, SACConfig
from d3rlpy.dataset import FIFOBuffer, MixedReplayBuffer, ReplayBuffer, create_fifo_replay_buffer
from d3rlpy.logging import FileAdapterFactory, NoopAdapterFactory
from d3rlpy.models import VectorEncoderFactory

seed = int(sys.argv[1])
d3rlpy.seed(seed)
env = gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), -1.0, 1.0)
eval_env = gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), -1.0, 1.0)
d3rlpy.envs.seed_env(env, seed)
d3rlpy.envs.seed_env(eval_env, seed)
random_data = d3rlpy.algos.RandomPolicyConfig().create().collect(env, n_steps=1000, show_progress=False)
dataset = ReplayBuffer(FIFOBuffer(limit=5000), episodes=random_data.episodes)

encoder = VectorEncoderFactory([64, 64])
networks = dict(
    batch_size=64, actor_learning_rate=1e-3, critic_learning_rate=1e-3,
    actor_encoder_factory=encoder, critic_encoder_factory=encoder,
)  # fmt: skip
offline = dict(n_steps=100, n_steps_per_epoch=100, show_progress=False, logger_adapter=NoopAdapterFactory())
online = dict(
    n_steps=250, n_steps_per_epoch=125, update_interval=2, eval_env=eval_env, eval_n_trials=2,
    with_timestamp=False, show_progress=False,
)  # fmt: skip

cql = CQLConfig(n_action_samples=4, **networks).create()
cql.fit(dataset, **offline)
sac = SACConfig(**networks).create()
sac.build_with_env(env)
sac.copy_policy_from(cql)
sac.copy_q_function_from(cql)
sac.copy_policy_optim_from(cql)
sac.copy_q_function_optim_from(cql)
observations = dataset.episodes[0].observations[:5]
copied = bool((sac.predict(observations) == cql.predict(observations)).all())
online_buffer = create_fifo_replay_buffer(limit=2000, env=env)
mixed = MixedReplayBuffer(primary_replay_buffer=online_buffer, secondary_replay_buffer=dataset, secondary_mix_ratio=0.5)
sac.fit_online(env, mixed, logger_adapter=FileAdapterFactory("sac_logs"), **online)

iql = IQLConfig(expectile=0.7, weight_temp=3.0, **{**networks, "value_encoder_factory": encoder}).create()
iql.fit(dataset, **offline)
optimizer = iql.impl.modules.actor_optim.optim
moments = len(optimizer.state_dict()["state"])
iql.reset_optimizer_states()
after_reset = len(optimizer.state_dict()["state"])
before = dataset.transition_count
iql.fit_online(env, dataset, experiment_name="iql_online", random_steps=20, update_start_step=10, **online)

other = IQLConfig(**{**networks, "value_encoder_factory": encoder}).create()
other.create_impl(iql.observation_shape, iql.action_size)
other.copy_policy_from(iql)

returns = [d3rlpy.metrics.evaluate_qlearning_with_environment(algo, eval_env, n_trials=4) for algo in (sac, iql)]
# A test reads this
result = {
    "arrays": {
        "sac_predict": sac.predict(observations),
        "iql_sample": iql.sample_action(observations),
        "iql_value": iql.predict_value(observations, iql.predict(observations)),
        "batch_actions": mixed.sample_transition_batch(10).actions,
    },
    "values": {
        "copied": np.array([copied, (other.predict(observations) == iql.predict(observations)).all()]),
        "moments": np.array([moments, after_reset]),
        "transitions": np.array([before, dataset.transition_count, online_buffer.transition_count, mixed.size()]),
        "updates": np.array([sac.grad_step, iql.grad_step]),
    },
    "returns": returns,
}
