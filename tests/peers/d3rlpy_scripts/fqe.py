"""Fitted Q evaluation of a policy that CQL has learnt."""

from d3rlpy.algos import DiscreteCQL
from d3rlpy.datasets import get_cartpole
from d3rlpy.metrics.scorer import initial_state_value_estimation_scorer, soft_opc_scorer
from d3rlpy.ope import DiscreteFQE

dataset, env = get_cartpole()
quiet = dict(save_metrics=False, verbose=False, show_progress=False)
cql = DiscreteCQL(batch_size=32)
cql.fit(dataset.episodes[:4], n_epochs=1, **quiet)

fqe = DiscreteFQE(algo=cql, learning_rate=1e-4, n_critics=2, batch_size=32, use_gpu=False)
fqe.fit(
    dataset.episodes[:4],
    n_epochs=2,
    eval_episodes=dataset.episodes[:4],
    scorers={"init_value": initial_state_value_estimation_scorer, "soft_opc": soft_opc_scorer(10)},
    **quiet,
)
assert len(fqe.eval_results_["init_value"]) == 2
assert fqe.predict_value(dataset.observations[:3], dataset.actions[:3]).shape == (3,)
