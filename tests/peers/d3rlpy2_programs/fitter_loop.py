"""A loop of the user over `fitter`: callbacks, early stopping, the best weights kept, data collected in between."""

import sys

import d3rlpy
import gymnasium as gym
import numpy as np
from d3rlpy.algos import ConstantEpsilonGreedy, DQNConfig
from d3rlpy.constants import LoggingStrategy
from d3rlpy.metrics import evaluate_qlearning_with_environment

seed = int(sys.argv[1])
d3rlpy.seed(seed)
env, eval_env = gym.make("CartPole-v1"), gym.make("CartPole-v1")
d3rlpy.envs.seed_env(env, seed)
d3rlpy.envs.seed_env(eval_env, seed)

dqn = DQNConfig(
    batch_size=32, learning_rate=1e-3, target_update_interval=25, gamma=0.98,
    encoder_factory=d3rlpy.models.VectorEncoderFactory([64, 64], activation="tanh"),
).create()  # fmt: skip
buffer = dqn.collect(env, explorer=ConstantEpsilonGreedy(1.0), n_steps=500, show_progress=False)

calls, epoch_calls, history, scores = [], [], [], []
best, patience = -1.0, 0
for epoch, metrics in dqn.fitter(
    buffer,
    n_steps=1200,
    n_steps_per_epoch=200,
    logging_strategy=LoggingStrategy.EPOCH,
    experiment_name="loop",
    with_timestamp=False,
    show_progress=False,
    save_interval=3,
    evaluators={"td_error": d3rlpy.metrics.TDErrorEvaluator(episodes=buffer.episodes[:3])},
    callback=lambda algo, epoch, total_step: calls.append((epoch, total_step)),
    epoch_callback=lambda algo, epoch, total_step: epoch_calls.append((epoch, total_step)),
):
    history.append(metrics)
    scores.append(evaluate_qlearning_with_environment(dqn, eval_env, n_trials=4))
    buffer = dqn.collect(env, buffer=buffer, explorer=ConstantEpsilonGreedy(0.2), n_steps=50, show_progress=False)
    if scores[-1] > best:
        best, patience = scores[-1], 0
        dqn.save_model("best.pt")
    else:
        patience += 1
    if epoch == 4:  # early stopping
        break

dqn.load_model("best.pt")
greedy = dqn.collect(env, deterministic=True, n_steps=30, show_progress=False)

steps = []
results = dqn.fit(
    buffer,
    n_steps=60,
    n_steps_per_epoch=20,
    logging_steps=10,
    logging_strategy=LoggingStrategy.STEPS,
    experiment_name="by_steps",
    with_timestamp=False,
    show_progress=False,
    callback=lambda algo, epoch, total_step: steps.append(algo.grad_step),
)

# A test reads this
result = {
    "arrays": {"predict": dqn.predict(buffer.episodes[0].observations[:5])},
    "values": {
        "calls": np.array(calls)[::50],
        "epoch_calls": np.array(epoch_calls),
        "epochs_of_fit": np.array([number for number, _ in results]),
        "updates": np.array(steps),
        "action_size": np.array(greedy.dataset_info.action_size),
        "evaluations": np.array(len(scores)),
    },
    "metrics": {**history[-1], **{f"by_steps_{name}": value for name, value in results[-1][1].items()}},
    "returns": [max(scores)],
}
