"""Trains an estimator on D4RL's data of a PyBullet task, which are downloaded once.

    python examples/offline/train_pybullet.py --dataset bullet-hopper-medium-replay-v0

Needs the extras `pybullet` and `offline`.
"""

import common

from pfrl_like import algos, datasets, metrics

parser = common.make_parser(__doc__, steps=100_000)
parser.add_argument("--dataset", default="bullet-hopper-medium-replay-v0", help="see datasets.get_pybullet")
parser.add_argument("--algo", default="CQL", choices=["CQL", "BEAR", "BCQ", "AWAC", "BC"], help="kind of estimator")
args = common.start(parser)
dataset, env = datasets.get_pybullet(args.dataset)
algo = getattr(algos, args.algo)(scaler="standard")
algo.fit(
    dataset,
    n_steps=args.steps,
    n_steps_per_epoch=min(args.steps, 5_000),
    scorers={"environment": metrics.evaluate_on_environment(env, n_trials=args.eval_n_runs)},
    eval_episodes=dataset.episodes[:10],
    logdir=args.outdir,
    tensorboard=False,
)
algo.save_policy(f"{args.outdir}/policy.pt")
print(f"returns: {algo.eval_results_['environment']}; the policy is in {args.outdir}/policy.pt")
