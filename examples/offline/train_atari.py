"""Learn an Atari game from a million steps of DQN, which are downloaded once: 7 GB on the disk (extra `atari`).

For example: `python examples/offline/train_atari.py --dataset pong-expert-v0`. Single frames are stored; four of them
are stacked when they are drawn.
"""

import argparse

import common

from pfrl_like import algos, datasets, metrics


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dataset", default="breakout-expert-v0", help="see datasets.get_atari")
    parser.add_argument("--gpu", action="store_true", help="learn on a GPU")


def main() -> None:
    args = common.parse_args(__doc__, steps=500_000, add=add_flags)
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


if __name__ == "__main__":
    main()
