"""Trains three algorithms on recorded episodes of CartPole, chooses one without playing, and deploys its policy.

    python examples/offline/train_cartpole.py

Double DQN, discrete CQL and discrete BCQ learn from four fifths of the episodes. The others tell which one to take: by
how much more each values the actions of long episodes than those of all (soft OPC, arXiv:1906.01624). Only then is the
policy exported, and played by a program that has nothing but the file.
Time: about two minutes on one core.
"""

import common
import numpy as np

from pfrl_like import algos, datasets, metrics

args = common.start(common.make_parser(__doc__, steps=5_000))
dataset, env = datasets.get_cartpole()
print(f"{len(dataset)} episodes, {dataset.n_steps} steps, returns {dataset.compute_stats()['return']['mean']:.1f}")
held_out = dataset.episodes[::5]
train = [episode for i, episode in enumerate(dataset.episodes) if i % 5]

scorers = {
    "soft OPC": metrics.soft_opc_scorer(return_threshold=200),
    "TD error": metrics.td_error_scorer,
    "value of first states": metrics.initial_state_value_estimation_scorer,
}
best, best_score = None, -float("inf")
for make in (algos.DoubleDQN, algos.DiscreteCQL, algos.DiscreteBCQ):
    algo = make(learning_rate=1e-3, batch_size=128, target_update_interval=200, encoder_params={"hidden_units": [128]})
    algo.fit(
        train,
        n_steps=args.steps,
        n_steps_per_epoch=args.steps,
        eval_episodes=held_out,
        scorers=scorers,
        logdir=args.outdir,
        verbose=False,
        show_progress=False,
        tensorboard=False,
    )
    scores = {name: values[-1] for name, values in algo.eval_results_.items()}
    print(make.__name__, ", ".join(f"{name} {value:.3f}" for name, value in scores.items()))
    if scores["soft OPC"] > best_score:
        best, best_score = algo, scores["soft OPC"]

path = f"{args.outdir}/{common.POLICY}"
best.impl.export(path, example_obs=np.asarray(dataset.observations[:1_000]))
score = common.play(path, env, args.eval_n_runs)
print(f"{type(best).__name__} was taken; mean return of its exported policy, {path}: {score:.1f}")
