"""Categorical DQN (C51, arXiv:1707.06887), plain or double, or Rainbow (arXiv:1710.02298) on an Atari game.

Rainbow is what `--agent Rainbow` stands for: double, dueling and noisy, prioritized, and with 3-step returns. Needs
ale-py: the extra `atari`.
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
from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.wrappers import atari_wrappers

AGENTS = {
    "CategoricalDQN": agents.CategoricalDQN,
    "CategoricalDoubleDQN": agents.CategoricalDoubleDQN,
    "Rainbow": agents.CategoricalDoubleDQN,
}
LOAD_HELP = "directory of a saved agent, of this script or of PFRL (model.pt, target_model.pt, optimizer.pt)"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--env", default="BreakoutNoFrameskip-v4", help="a game, as PongNoFrameskip-v4 or ALE/Pong-v5")
    parser.add_argument("--agent", default="CategoricalDQN", choices=AGENTS, help="kind of agent")
    parser.add_argument("--outdir", default="results", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--gpu", type=int, default=None, help="CUDA device; the CPU without it")
    parser.add_argument("--steps", type=int, default=10**7, help="steps of training, of four frames each")
    parser.add_argument("--max-frames", type=int, default=30 * 60 * 60, help="frames after which a game is cut off")
    parser.add_argument("--lr", type=float, default=2.5e-4, help="learning rate of Adam")
    parser.add_argument("--batch-size", type=int, default=32, help="transitions of an update")
    parser.add_argument("--replay-start-size", type=int, default=50_000, help="steps before the first update")
    parser.add_argument("--update-interval", type=int, default=4, help="steps between updates")
    parser.add_argument("--target-update-interval", type=int, default=10_000, help="of the target network")
    parser.add_argument("--num-step-return", type=int, default=1, help="steps of the return that is learnt from")
    parser.add_argument("--prioritized", action="store_true", help="draw transitions by their TD errors")
    parser.add_argument("--n-atoms", type=int, default=51, help="atoms of a return distribution")
    parser.add_argument("--v-min", type=float, default=-10.0, help="smallest return that can be told apart")
    parser.add_argument("--v-max", type=float, default=10.0, help="largest one")
    parser.add_argument("--final-exploration-frames", type=int, default=10**6, help="steps until the last epsilon")
    parser.add_argument("--final-epsilon", type=float, default=0.1, help="share of random actions at last")
    parser.add_argument("--eval-epsilon", type=float, default=0.05, help="share of random actions in evaluations")
    parser.add_argument("--noisy-net-sigma", type=float, default=None, help="explore by noisy layers of this scale")
    parser.add_argument("--eval-interval", type=int, default=10**5, help="steps between evaluations")
    parser.add_argument("--eval-n-runs", type=int, default=10, help="episodes of each evaluation")
    parser.add_argument("--checkpoint-frequency", type=int, default=None, help="steps between saved agents")
    parser.add_argument("--load", default=None, help=LOAD_HELP)
    parser.add_argument("--demo", action="store_true", help="evaluate only")
    parser.add_argument("--render", action="store_true", help="show evaluations")
    parser.add_argument("--monitor", action="store_true", help="record returns and videos of evaluations")
    parser.add_argument("--log-level", type=int, default=20, help="of Python's logging: 10 debug, 20 info, 30 warnings")
    args = parser.parse_args()
    if args.agent == "Rainbow":
        args.prioritized, args.num_step_return, args.eval_epsilon = True, 3, 0.0
        args.noisy_net_sigma = 0.5 if args.noisy_net_sigma is None else args.noisy_net_sigma
    return args


class DistributionalHead(nn.Module):
    """Logits [B, n_actions * n_atoms] as the distributions of B states' returns."""

    def __init__(self, n_actions: int, n_atoms: int, v_min: float, v_max: float) -> None:
        super().__init__()
        self.shape = (n_actions, n_atoms)
        self.register_buffer("z_values", torch.linspace(v_min, v_max, n_atoms), persistent=False)

    def forward(self, x: torch.Tensor) -> DistributionalDiscreteActionValue:
        return DistributionalDiscreteActionValue(x.unflatten(1, self.shape).softmax(2), self.z_values)


def phi(frames: np.ndarray) -> np.ndarray:
    """Pixels from 0 to 1; the replay buffer keeps them as bytes."""
    return np.asarray(frames, dtype=np.float32) / 255


def make_env(args: argparse.Namespace, test: bool, outdir: str | None = None) -> gymnasium.Env:
    mode = None if not test else "human" if args.render else "rgb_array" if args.monitor else None
    env = atari_wrappers.make_atari(args.env, max_frames=args.max_frames, render_mode=mode)
    env = atari_wrappers.wrap_deepmind(env, episode_life=not test, clip_rewards=not test)
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

    atoms = (args.n_atoms, args.v_min, args.v_max)
    if args.agent == "Rainbow":
        q_function = q_functions.DistributionalDuelingDQN(n_actions, *atoms)
    else:
        q_function = nn.Sequential(
            pnn.LargeAtariCNN(), nn.Linear(512, n_actions * args.n_atoms), DistributionalHead(n_actions, *atoms)
        )
    explorer = explorers.LinearDecayEpsilonGreedy(
        1.0, args.final_epsilon, args.final_exploration_frames, lambda: np.random.randint(n_actions)
    )
    if args.noisy_net_sigma is not None:
        pnn.to_factorized_noisy(q_function, sigma_scale=args.noisy_net_sigma)
        explorer = explorers.Greedy()
    if args.prioritized:
        updates = args.steps // args.update_interval  # the last of which corrects the draws in full
        replay_buffer = replay_buffers.PrioritizedReplayBuffer(
            10**6, alpha=0.6, beta0=0.4, betasteps=max(1, updates), num_steps=args.num_step_return
        )
    else:
        replay_buffer = replay_buffers.ReplayBuffer(10**6, num_steps=args.num_step_return)
    agent = AGENTS[args.agent](
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=args.lr, eps=1e-2 / args.batch_size),
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
