"""DQN with a memory (DRQN, arXiv:1507.06527) on an Atari game, which may flicker; needs ale-py: the extra `atari`.

For example, one frame at a time, half of them dark: `python examples/atari/train_drqn_ale.py --recurrent --flicker
--no-frame-stack`. Without `--recurrent` the same network without the LSTM is trained, to compare.
"""

import argparse
import logging
from pathlib import Path

import gymnasium
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, experiments, explorers, q_functions, replay_buffers, utils, wrappers
from pfrl_like import nn as pnn
from pfrl_like.wrappers import atari_wrappers

LOAD_HELP = "directory of a saved agent, of this script or of PFRL (model.pt, target_model.pt, optimizer.pt)"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--env", default="BreakoutNoFrameskip-v4", help="a game, as PongNoFrameskip-v4 or ALE/Pong-v5")
    parser.add_argument("--outdir", default="results", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--gpu", type=int, default=None, help="CUDA device; the CPU without it")
    parser.add_argument("--steps", type=int, default=5 * 10**7, help="steps of training, of four frames each")
    parser.add_argument("--max-frames", type=int, default=30 * 60 * 60, help="frames after which a game is cut off")
    parser.add_argument("--recurrent", action="store_true", help="with an LSTM")
    parser.add_argument("--flicker", action="store_true", help="half of the frames are dark")
    parser.add_argument("--no-frame-stack", dest="frame_stack", action="store_false", help="observe one frame only")
    parser.add_argument("--episodic-update-len", type=int, default=10, help="steps of a training sequence")
    parser.add_argument("--lr", type=float, default=1e-4, help="learning rate of Adam")
    parser.add_argument("--batch-size", type=int, default=32, help="transitions, or sequences, of an update")
    parser.add_argument("--replay-start-size", type=int, default=50_000, help="steps before the first update")
    parser.add_argument("--update-interval", type=int, default=4, help="steps between updates")
    parser.add_argument("--target-update-interval", type=int, default=30_000, help="of the target network")
    parser.add_argument("--final-exploration-frames", type=int, default=10**6, help="steps until the last epsilon")
    parser.add_argument("--final-epsilon", type=float, default=0.01, help="share of random actions at last")
    parser.add_argument("--eval-epsilon", type=float, default=0.001, help="share of random actions in evaluations")
    parser.add_argument("--eval-interval", type=int, default=250_000, help="steps between evaluations")
    parser.add_argument("--eval-n-runs", type=int, default=10, help="episodes of each evaluation")
    parser.add_argument("--checkpoint-frequency", type=int, default=None, help="steps between saved agents")
    parser.add_argument("--load", default=None, help=LOAD_HELP)
    parser.add_argument("--demo", action="store_true", help="evaluate only")
    parser.add_argument("--render", action="store_true", help="show evaluations")
    parser.add_argument("--monitor", action="store_true", help="record returns and videos of evaluations")
    parser.add_argument("--log-level", type=int, default=20, help="of Python's logging: 10 debug, 20 info, 30 warnings")
    return parser.parse_args()


def phi(frames: np.ndarray) -> np.ndarray:
    """Pixels from 0 to 1; the replay buffer keeps them as bytes."""
    return np.asarray(frames, dtype=np.float32) / 255


def make_env(args: argparse.Namespace, test: bool, outdir: str | None = None) -> gymnasium.Env:
    mode = None if not test else "human" if args.render else "rgb_array" if args.monitor else None
    env = atari_wrappers.make_atari(args.env, max_frames=args.max_frames, render_mode=mode)
    env = atari_wrappers.wrap_deepmind(
        env, episode_life=not test, clip_rewards=not test, frame_stack=args.frame_stack, flicker=args.flicker
    )
    if test:
        env = wrappers.RandomizeAction(env, args.eval_epsilon)
    env.seed(2**32 - 1 - args.seed if test else args.seed)
    return wrappers.Monitor(env, outdir, mode="evaluation") if test and args.monitor else env


def main() -> None:
    args = parse_args()
    logging.basicConfig(level=args.log_level)
    torch.set_num_threads(1)
    utils.set_random_seed(args.seed)
    outdir = experiments.prepare_output_dir(args, args.outdir)
    env, eval_env = make_env(args, test=False), make_env(args, test=True, outdir=outdir)
    n_actions = env.action_space.n

    layers = [
        nn.Conv2d(4 if args.frame_stack else 1, 32, 8, stride=4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(),
        nn.Flatten(),
    ]
    head = nn.Linear(512, n_actions), q_functions.DiscreteActionValueHead()
    if args.recurrent:
        q_function = pnn.RecurrentSequential(*layers, nn.LSTM(3136, 512), *head)
        replay_buffer = replay_buffers.EpisodicReplayBuffer(10**6)
    else:
        q_function = nn.Sequential(*layers, nn.Linear(3136, 512), nn.ReLU(), *head)
        replay_buffer = replay_buffers.ReplayBuffer(10**6)
    explorer = explorers.LinearDecayEpsilonGreedy(
        1.0, args.final_epsilon, args.final_exploration_frames, lambda: np.random.randint(n_actions)
    )
    agent = agents.DoubleDQN(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=args.lr, eps=1e-4),
        replay_buffer,
        gamma=0.99,
        explorer=explorer,
        gpu=args.gpu,
        replay_start_size=args.replay_start_size,
        minibatch_size=args.batch_size,
        update_interval=args.update_interval,
        target_update_interval=args.target_update_interval,
        batch_accumulator="mean",
        phi=phi,
        episodic_update_len=args.episodic_update_len if args.recurrent else None,
        recurrent=args.recurrent,
    )
    if args.load:
        agent.load(args.load)

    if args.demo:
        scores = experiments.eval_performance(eval_env, agent, n_steps=None, n_episodes=args.eval_n_runs)
        print(f"n_runs: {args.eval_n_runs} mean: {scores['mean']} median: {scores['median']} stdev: {scores['stdev']}")
        return

    experiments.train_agent_with_evaluation(
        agent,
        env,
        steps=args.steps,
        eval_n_steps=None,
        eval_n_episodes=args.eval_n_runs,
        eval_interval=args.eval_interval,
        eval_env=eval_env,
        outdir=outdir,
        checkpoint_freq=args.checkpoint_frequency,
        progress=True,
    )
    saved = Path(outdir) / f"{args.steps}_finish"
    print(f"Results are in {outdir}; evaluate the agent with --demo --load {saved}")


if __name__ == "__main__":
    main()
