"""SAC, TD3 and DQN make the same steps and updates in short episodes, from the same parameters and random numbers."""

import sys

import d3rlpy
import gymnasium
import numpy as np
import torch
from d3rlpy.algos import DQNConfig, LinearDecayEpsilonGreedy, NormalNoise, SACConfig, TD3Config
from d3rlpy.dataset import create_fifo_replay_buffer
from d3rlpy.preprocessing import MinMaxActionScaler

SEED = int(sys.argv[1])
encoder = d3rlpy.models.VectorEncoderFactory([32, 32])
networks = {"actor_encoder_factory": encoder, "critic_encoder_factory": encoder, "action_scaler": MinMaxActionScaler()}
noise, decay = NormalNoise(0.0, 0.3), LinearDecayEpsilonGreedy(1.0, 0.3, 60)
rates = {"actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3}
sac = SACConfig(batch_size=16, **networks, **rates).create()
td3 = TD3Config(batch_size=16, update_actor_interval=2, **networks, **rates).create()
dqn = DQNConfig(batch_size=16, encoder_factory=encoder, learning_rate=1e-3, target_update_interval=5).create()


def set_parameters(algo):
    """Set all parameters to numbers from -0.2 to 0.2 that depend on their names alone. Targets are equal."""
    algo.save_model("model.pt")
    state, numbers = torch.load("model.pt"), torch.Generator().manual_seed(SEED)
    for name, part in sorted(state.items()):
        if "optim" not in name and "targ_" not in name:
            for key, tensor in sorted(part.items()):
                state[name][key] = torch.rand(tensor.shape, generator=numbers) * 0.4 - 0.2
    state |= {name: state[name.removeprefix("targ_")] for name in state if name.startswith("targ_")}
    torch.save(state, "model.pt")
    algo.load_model("model.pt")


values = {}
for algo, name, explorer, interval, random_steps in (
    (sac, "Pendulum-v1", None, 1, 25), (td3, "Pendulum-v1", noise, 2, 0), (dqn, "CartPole-v1", decay, 3, 0)
):  # fmt: skip
    kind = type(algo).__name__
    env = gymnasium.make(name, max_episode_steps=17)
    algo.build_with_env(env)
    set_parameters(algo)
    buffer, counts = create_fifo_replay_buffer(limit=50, env=env), []
    d3rlpy.seed(SEED)  # after the buffer, whose constructor draws random numbers in d3rlpy
    d3rlpy.envs.seed_env(env, SEED)
    env.action_space.seed(SEED)
    algo.fit_online(
        env, buffer, explorer, n_steps=80, n_steps_per_epoch=20, update_interval=interval, n_updates=1,
        update_start_step=30, random_steps=random_steps, experiment_name=kind, with_timestamp=False,
        show_progress=False, callback=lambda algo, *now, counts=counts: counts.append([*now, algo.grad_step]),
    )  # fmt: skip
    values[f"{kind} counts"] = np.array(counts)
    ends = [(each.size(), each.transition_count, each.terminated) for each in buffer.episodes]
    values[f"{kind} ends"] = np.array(ends)
    for column in ("observations", "actions", "rewards"):
        values[f"{kind} {column}"] = np.concatenate([getattr(each, column) for each in buffer.episodes])
    for metric in ("critic_loss", "actor_loss") if algo is not dqn else ("loss",):
        values[f"{kind} {metric}"] = np.loadtxt(f"d3rlpy_logs/{kind}/{metric}.csv", delimiter=",")
    values[f"{kind} predictions"] = algo.predict(buffer.episodes[0].observations)

# A test reads this
result = {"values": values}
