"""SAC that continues in an environment with what CQL learnt from data, and an explorer of the user's own."""

import numpy as np
from d3rlpy.algos import CQL, SAC
from d3rlpy.datasets import get_pendulum
from d3rlpy.online.buffers import ReplayBuffer

dataset, env = get_pendulum()
cql = CQL(batch_size=32)
cql.fit(dataset.episodes[:2], n_steps=2, n_steps_per_epoch=2, save_metrics=False, verbose=False, show_progress=False)

sac = SAC(batch_size=32)
sac.create_impl(cql.observation_shape, cql.action_size)
sac.copy_policy_from(cql)
sac.copy_q_function_from(cql)
observations = dataset.observations[:5]
assert np.allclose(sac.predict(observations), cql.predict(observations), atol=1e-6)


class UniformThenPolicy:
    def sample(self, algo, x, step):
        if step < 10:
            return np.random.uniform(-1, 1, algo.impl.action_size).astype(np.float32)
        return algo.sample_action(np.asarray(x)[None])[0]


buffer = ReplayBuffer(maxlen=1000, env=env, episodes=dataset.episodes[:2])
held = len(buffer)
sac.fit_online(
    env, buffer, UniformThenPolicy(), n_steps=20, n_steps_per_epoch=10, save_metrics=False, verbose=False,
    show_progress=False,
)  # fmt: skip
assert len(buffer) == held + 20
