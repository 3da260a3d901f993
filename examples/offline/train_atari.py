"""Trains discrete CQL on a million steps of an Atari game, which are downloaded once: 7 GB on the disk.

    python examples/offline/train_atari.py --dataset pong-expert-v0 --gpu

Single frames are stored; four of them are stacked when they are drawn. Needs ale-py: the extra `atari`.
"""

import common

from pfrl_like import algos, datasets, metrics

parser = common.make_parser(__doc__, steps=500_000)
parser.add_argument("--dataset", default="breakout-expert-v0", help="see datasets.get_atari")
parser.add_argument("--gpu", action="store_true", help="learn on a GPU")
args = common.start(parser)
dataset, env = datasets.get_atari(args.dataset)
algo = algos.DiscreteCQL(
    n_frames=4, q_func_type="qr", scaler="pixel", use_gpu=args.gpu, batch_size=32, learning_rate=6.25e-5
)
algo.fit(
    dataset,
    n_steps=args.steps,
    n_steps_per_epoch=min(args.steps, 10_000),
    scorers={"environment": metrics.evaluate_on_environment(env, n_trials=args.eval_n_runs, epsilon=0.01)},
    eval_episodes=dataset.episodes[:2],
    logdir=args.outdir,
    tensorboard=False,
)
algo.save_policy(f"{args.outdir}/policy.pt")
print(f"returns: {algo.eval_results_['environment']}; the policy is in {args.outdir}/policy.pt")
