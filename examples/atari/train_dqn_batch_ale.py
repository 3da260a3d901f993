"""DQN, Double DQN or PAL on several copies of an Atari game at once, each in a process of its own.

Only the newest frames come out of the processes; they are stacked here. Needs ale-py: the extra `atari`.
"""

import argparse
import functools
import logging
from pathlib import Path

import gymnasium
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, envs, experiments, explorers, optimizers, q_functions, replay_buffers, utils, wrappers
from pfrl_like import nn as pnn
from pfrl_like.initializers import init_chainer_default
from pfrl_like.wrappers import atari_wrappers

LOAD_HELP = "directory of a saved agent, of this script or of PFRL (model.pt, target_model.pt, optimizer.pt)"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--env", default="BreakoutNoFrameskip-v4", help="a game, as PongNoFrameskip-v4 or ALE/Pong-v5")
    parser.add_argument("--agent", default="DQN", choices=["DQN", "DoubleDQN", "PAL"], help="kind of agent")
    parser.add_argument("--num-envs", type=int, default=4, help="copies of the game")
    parser.add_argument("--outdir", default="results", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--gpu", type=int, default=None, help="CUDA device; the CPU without it")
    parser.add_argument("--steps", type=int, default=10**7, help="steps of training, of all games together")
    parser.add_argument("--max-frames", type=int, default=30 * 60 * 60, help="frames after which a game is cut off")
    parser.add_argument("--lr", type=float, default=2.5e-4, help="learning rate of RMSprop")
    parser.add_argument("--batch-size", type=int, default=32, help="transitions of an update")
    parser.add_argument("--replay-start-size", type=int, default=50_000, help="steps before the first update")
    parser.add_argument("--update-interval", type=int, default=4, help="steps between updates")
    parser.add_argument("--target-update-interval", type=int, default=10_000, help="of the target network")
    parser.add_argument("--num-step-return", type=int, default=1, help="steps of the return that is learnt from")
    parser.add_argument("--prioritized", action="store_true", help="draw transitions by their TD errors")
    parser.add_argument("--no-clip-delta", dest="clip_delta", action="store_false", help="square large TD errors, too")
    parser.add_argument("--final-exploration-frames", type=int, default=10**6, help="steps until the last epsilon")
    parser.add_argument("--final-epsilon", type=float, default=0.1, help="share of random actions at last")
    parser.add_argument("--eval-epsilon", type=float, default=0.05, help="share of random actions in evaluations")
    parser.add_argument("--eval-interval", type=int, default=10**5, help="steps between evaluations")
    parser.add_argument("--eval-n-runs", type=int, default=10, help="episodes of each evaluation")
    parser.add_argument("--checkpoint-frequency", type=int, default=None, help="steps between saved agents")
    parser.add_argument("--load", default=None, help=LOAD_HELP)
    parser.add_argument("--demo", action="store_true", help="evaluate only")
    parser.add_argument("--log-level", type=int, default=20, help="of Python's logging: 10 debug, 20 info, 30 warnings")
    return parser.parse_args()


def phi(frames: np.ndarray) -> np.ndarray:
    """Pixels from 0 to 1; the replay buffer keeps them as bytes."""
    return np.asarray(frames, dtype=np.float32) / 255


def make_env(args: argparse.Namespace, seed: int, test: bool) -> gymnasium.Env:
    env = atari_wrappers.make_atari(args.env, max_frames=args.max_frames)
    env = atari_wrappers.wrap_deepmind(env, episode_life=not test, clip_rewards=not test, frame_stack=False)
    if test:
        env = wrappers.RandomizeAction(env, args.eval_epsilon)
    env.seed(seed)
    return env


def make_batch_env(args: argparse.Namespace, test: bool) -> wrappers.VectorFrameStack:
    seeds = [args.seed * args.num_envs + i for i in range(args.num_envs)]
    makers = [functools.partial(make_env, args, 2**32 - 1 - seed if test else seed, test) for seed in seeds]
    return wrappers.VectorFrameStack(envs.MultiprocessVectorEnv(makers), 4)


def main() -> None:
    args = parse_args()
    logging.basicConfig(level=args.log_level)
    torch.set_num_threads(1)
    utils.set_random_seed(args.seed)
    outdir = experiments.prepare_output_dir(args, args.outdir)
    env, eval_env = make_batch_env(args, test=False), make_batch_env(args, test=True)
    n_actions = env.action_space.n

    q_function = nn.Sequential(
        pnn.LargeAtariCNN(), init_chainer_default(nn.Linear(512, n_actions)), q_functions.DiscreteActionValueHead()
    )
    explorer = explorers.LinearDecayEpsilonGreedy(
        1.0, args.final_epsilon, args.final_exploration_frames, lambda: np.random.randint(n_actions)
    )
    optimizer = optimizers.RMSpropEpsInsideSqrt(
        q_function.parameters(), lr=args.lr, alpha=0.95, momentum=0.0, eps=1e-2, centered=True
    )
    if args.prioritized:
        updates = args.steps // args.update_interval  # the last of which corrects the draws in full
        replay_buffer = replay_buffers.PrioritizedReplayBuffer(
            10**6, alpha=0.6, beta0=0.4, betasteps=max(1, updates), num_steps=args.num_step_return
        )
    else:
        replay_buffer = replay_buffers.ReplayBuffer(10**6, num_steps=args.num_step_return)
    agent = getattr(agents, args.agent)(
        q_function,
        optimizer,
        replay_buffer,
        gamma=0.99,
        explorer=explorer,
        gpu=args.gpu,
        replay_start_size=args.replay_start_size,
        minibatch_size=args.batch_size,
        update_interval=args.update_interval,
        target_update_interval=args.target_update_interval,
        clip_delta=args.clip_delta,
        batch_accumulator="sum",
        phi=phi,
    )
    if args.load:
        agent.load(args.load)

    if args.demo:
        scores = experiments.eval_performance(eval_env, agent, n_steps=None, n_episodes=args.eval_n_runs)
        print(f"n_runs: {args.eval_n_runs} mean: {scores['mean']} median: {scores['median']} stdev: {scores['stdev']}")
        env.close()
        eval_env.close()
        return

    experiments.train_agent_batch_with_evaluation(
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
    env.close()
    eval_env.close()
    saved = Path(outdir) / f"{args.steps}_finish"
    print(f"Results are in {outdir}; evaluate the agent with --demo --load {saved}")


if __name__ == "__main__":
    main()
