"""A model of the environment that generates data for SAC, as in 0.5."""

from d3rlpy.algos import SAC
from d3rlpy.datasets import get_pendulum
from d3rlpy.dynamics import MOPO
from d3rlpy.dynamics.base import DynamicsBase
from d3rlpy.metrics.scorer import (
    dynamics_observation_prediction_error_scorer,
    dynamics_prediction_variance_scorer,
    dynamics_reward_prediction_error_scorer,
)
from sklearn.model_selection import train_test_split

dataset, _ = get_pendulum()
train_episodes, test_episodes = train_test_split(dataset.episodes[:4], random_state=0)
quiet = dict(n_epochs=1, save_metrics=False, verbose=False, show_progress=False)

mopo = MOPO(n_ensembles=2, n_transitions=20, horizon=3, lam=1.0, batch_size=64)
mopo.fit(
    train_episodes, eval_episodes=test_episodes, **quiet,
    scorers={
        "observation_error": dynamics_observation_prediction_error_scorer,
        "reward_error": dynamics_reward_prediction_error_scorer,
        "variance": dynamics_prediction_variance_scorer,
    },
)  # fmt: skip
assert isinstance(mopo, DynamicsBase) and len(mopo.eval_results_["variance"]) == 1
mopo.save_model("mopo.pt")

model = MOPO(n_ensembles=2, n_transitions=20, horizon=3)
model.create_impl(dataset.get_observation_shape(), dataset.get_action_size())
model.load_model("mopo.pt")
sac = SAC(dynamics=model, batch_size=64)
sac.fit(train_episodes, **quiet)
assert len(model.generate(sac, train_episodes[0].transitions)) == 60
