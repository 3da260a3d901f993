"""A trained policy as TorchScript, configs as text, dataclass and pickle, and what is inside an algorithm."""

import copy
import dataclasses
import json
import pickle
import sys

import d3rlpy
import gymnasium as gym
import numpy as np
import torch
from d3rlpy.algos import DQNConfig, SACConfig, TD3Config
from d3rlpy.models import VectorEncoderFactory
from d3rlpy.preprocessing import MinMaxActionScaler, StandardObservationScaler

seed = int(sys.argv[1])
d3rlpy.seed(seed)
env = gym.make("Pendulum-v1")
env.reset(seed=seed)
scaler = MinMaxActionScaler(minimum=env.action_space.low, maximum=env.action_space.high)
data = d3rlpy.algos.RandomPolicyConfig(action_scaler=scaler).create().collect(env, n_steps=600, show_progress=False)

config = SACConfig(
    batch_size=32,
    actor_encoder_factory=VectorEncoderFactory([32, 32], activation="gelu"),
    critic_encoder_factory=VectorEncoderFactory([32, 32], use_layer_norm=True),
    observation_scaler=StandardObservationScaler(),
    action_scaler=scaler,
    reward_scaler=d3rlpy.preprocessing.ClipRewardScaler(low=-5.0, high=0.0),
)
sac = config.create()
quiet = dict(show_progress=False, logger_adapter=d3rlpy.logging.NoopAdapterFactory())
sac.fit(data, n_steps=100, n_steps_per_epoch=50, **quiet)

observations = data.episodes[0].observations[:6]
sac.save_policy("policy.pt")
policy = torch.jit.load("policy.pt")
exported = policy(torch.tensor(observations)).detach().numpy()
try:
    import onnx  # noqa: F401
    import onnxruntime
except ImportError:
    onnx_error = 0.0
else:
    sac.save_policy("policy.onnx")
    session = onnxruntime.InferenceSession("policy.onnx")
    (onnx_actions,) = session.run(None, {session.get_inputs()[0].name: observations[:1]})
    onnx_error = float(np.abs(onnx_actions - sac.predict(observations[:1])).max())

text = sac.config.serialize()
again = SACConfig.deserialize(text)
larger = dataclasses.replace(config, batch_size=64, gamma=0.9)
pickled = pickle.loads(pickle.dumps(sac.config))
copied = copy.deepcopy(sac.config)
td3 = TD3Config(target_smoothing_sigma=0.1, update_actor_interval=3).create()
td3.build_with_dataset(data)
td3.save_policy("td3.pt")
exported_td3 = torch.jit.load("td3.pt")(torch.tensor(observations)).detach().numpy()

cartpole = gym.make("CartPole-v1")
cartpole.reset(seed=seed)
dqn = DQNConfig(n_critics=2, batch_size=16, encoder_factory=VectorEncoderFactory([16])).create()
discrete = dqn.collect(cartpole, explorer=d3rlpy.algos.ConstantEpsilonGreedy(1.0), n_steps=200, show_progress=False)
dqn.fit(discrete, n_steps=20, n_steps_per_epoch=10, **quiet)
dqn.save_policy("dqn.pt")
states = discrete.episodes[0].observations[:6]
actions_of_file = torch.jit.load("dqn.pt")(torch.tensor(states)).numpy()
with torch.no_grad():
    best = dqn.impl.inner_predict_best_action(torch.tensor(states))
    sac_best = sac.impl.inner_predict_best_action(sac.observation_scaler.transform(torch.tensor(observations)))
parameters = sum(parameter.numel() for parameter in sac.impl.policy.parameters())

# A test reads this
result = {
    "arrays": {
        "exported": exported,
        "predict": sac.predict(observations),
        "dqn_exported": actions_of_file,
        "best": best.numpy(),
        "sac_best": sac_best.numpy(),
        "td3_exported": exported_td3,
    },
    "values": {
        "equal": np.array(
            [
                np.allclose(exported, sac.predict(observations), atol=1e-5),
                np.allclose(exported_td3, td3.predict(observations), atol=1e-5),
                (actions_of_file == dqn.predict(states)).all(),
                (best.numpy() == dqn.predict(states)).all(),
                np.allclose(2 * sac_best.numpy(), sac.predict(observations), atol=1e-5),
                onnx_error < 1e-4,
                json.loads(again.serialize()) == json.loads(text),
                pickled.serialize() == text,
                copied.serialize() == text,
            ]
        ),
        "config": np.array(sorted(json.loads(text))),
        "scaler": np.array(json.loads(text)["observation_scaler"]["type"]),
        "replaced": np.array([larger.batch_size, larger.gamma, config.batch_size, config.gamma]),
        "fields": np.array(sorted(field.name for field in dataclasses.fields(TD3Config))),
        "counts": np.array([len(dqn.impl.q_function), parameters, sac.grad_step, sac.batch_size, sac.action_size]),
        "device": np.array(str(next(sac.impl.policy.parameters()).device)),
        "types": np.array([SACConfig.get_type(), TD3Config.get_type(), DQNConfig.get_type()]),
        "action_types": np.array([sac.get_action_type().name, dqn.get_action_type().name]),
        "optimizers": np.array([type(each).__name__ for each in (sac.impl.policy_optim, dqn.impl.q_function_optim)]),
    },
}
