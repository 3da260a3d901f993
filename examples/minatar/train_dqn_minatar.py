"""DQN, Double DQN, Categorical DQN, Rainbow or IQN on a game of MinAtar (Young and Tian 2019, arXiv:1903.03176).

The games are small Atari games of 10x10 pixels; network and settings are those of the paper. Needs minatar: the extra
`minatar`.
"""

import argparse
import logging
from pathlib import Path

import gymnasium
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, experiments, explorers, optimizers, q_functions, replay_buffers, utils
from pfrl_like import nn as pnn
from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.q_functions.dueling_dqn import dueling

AGENTS = {
    "DQN": agents.DQN,
    "DoubleDQN": agents.DoubleDQN,
    "CategoricalDQN": agents.CategoricalDQN,
    "Rainbow": agents.CategoricalDoubleDQN,
    "IQN": agents.IQN,
}


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    games = ["Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"]
    parser.add_argument("--env", default="Breakout", choices=games, help="game")
    parser.add_argument("--agent", default="DQN", choices=AGENTS, help="kind of agent")
    parser.add_argument("--outdir", default="results", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--gpu", type=int, default=None, help="CUDA device; the CPU without it")
    parser.add_argument("--steps", type=int, default=5 * 10**6, help="environment steps of training")
    parser.add_argument("--lr", type=float, default=2.5e-4, help="learning rate")
    parser.add_argument("--batch-size", type=int, default=32, help="transitions of an update")
    parser.add_argument("--replay-start-size", type=int, default=5_000, help="steps before the first update")
    parser.add_argument("--update-interval", type=int, default=1, help="steps between updates")
    parser.add_argument("--target-update-interval", type=int, default=1_000, help="of the target network")
    parser.add_argument("--final-exploration-frames", type=int, default=10**5, help="steps until the last epsilon")
    parser.add_argument("--final-epsilon", type=float, default=0.1, help="share of random actions at last")
    parser.add_argument("--n-atoms", type=int, default=51, help="atoms of a return distribution")
    parser.add_argument("--v-min", type=float, default=-10.0, help="smallest return that can be told apart")
    parser.add_argument("--v-max", type=float, default=10.0, help="largest one")
    parser.add_argument("--noisy-net-sigma", type=float, default=0.5, help="scale of Rainbow's noisy layers")
    parser.add_argument("--eval-interval", type=int, default=10**5, help="steps between evaluations")
    parser.add_argument("--eval-n-runs", type=int, default=20, help="episodes of each evaluation")
    parser.add_argument("--checkpoint-frequency", type=int, default=None, help="steps between saved agents")
    parser.add_argument("--load", default=None, help="directory of a saved agent: in that of a run, <t>_finish or best")
    parser.add_argument("--demo", action="store_true", help="evaluate only")
    parser.add_argument("--log-level", type=int, default=20, help="of Python's logging: 10 debug, 20 info, 30 warnings")
    return parser.parse_args()


class Distributions(nn.Module):
    """The distributions of returns out of 128 features, dueling or not."""

    def __init__(self, n_actions: int, n_atoms: int, v_min: float, v_max: float, is_dueling: bool) -> None:
        super().__init__()
        self.shape = (n_actions, n_atoms)
        self.advantage = nn.Linear(128, n_actions * n_atoms)
        self.value = nn.Linear(128, n_atoms) if is_dueling else None
        self.register_buffer("z_values", torch.linspace(v_min, v_max, n_atoms), persistent=False)

    def forward(self, features: torch.Tensor) -> DistributionalDiscreteActionValue:
        logits = self.advantage(features).unflatten(1, self.shape)
        if self.value is not None:
            logits = dueling(self.value(features).unsqueeze(1), logits)
        return DistributionalDiscreteActionValue(logits.softmax(2), self.z_values)


def phi(obs: np.ndarray) -> np.ndarray:
    """Channels first, as floats; the replay buffer keeps the game's own bools."""
    return np.moveaxis(obs, -1, -3).astype(np.float32, order="C")


def make_env(args: argparse.Namespace, seed: int) -> gymnasium.Env:
    env = gymnasium.make(f"MinAtar/{args.env}-v1")
    env.reset(seed=seed)
    return env


def main() -> None:
    args = parse_args()
    try:
        from minatar.gym import register_envs
    except ImportError as error:
        raise SystemExit('this example needs MinAtar: install the extra "minatar", or "minatar>=1.0.15"') from error
    register_envs()
    logging.basicConfig(level=args.log_level)
    torch.set_num_threads(1)  # networks this small are slower on several threads
    utils.set_random_seed(args.seed)
    env, eval_env = make_env(args, args.seed), make_env(args, args.seed + 1)
    n_actions, n_channels = env.action_space.n, env.observation_space.shape[2]

    features = nn.Conv2d(n_channels, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 8 * 8, 128), nn.ReLU()
    if args.agent == "IQN":
        fractions = nn.Sequential(q_functions.CosineBasisLinear(64, 128), nn.ReLU())
        q_function: nn.Module = q_functions.ImplicitQuantileQFunction(
            nn.Sequential(*features), fractions, nn.Linear(128, n_actions)
        )
    elif args.agent in ("DQN", "DoubleDQN"):
        q_function = nn.Sequential(*features, nn.Linear(128, n_actions), q_functions.DiscreteActionValueHead())
    else:
        atoms = args.n_atoms, args.v_min, args.v_max
        q_function = nn.Sequential(*features, Distributions(n_actions, *atoms, is_dueling=args.agent == "Rainbow"))
    if args.agent == "Rainbow":
        pnn.to_factorized_noisy(q_function, sigma_scale=args.noisy_net_sigma)
        updates = max(1, args.steps // args.update_interval)
        replay_buffer = replay_buffers.PrioritizedReplayBuffer(100_000, 0.5, 0.4, updates, num_steps=3)
        explorer: explorers.Greedy | explorers.LinearDecayEpsilonGreedy = explorers.Greedy()
    else:
        replay_buffer = replay_buffers.ReplayBuffer(100_000)
        explorer = explorers.LinearDecayEpsilonGreedy(
            1.0, args.final_epsilon, args.final_exploration_frames, lambda: np.random.randint(n_actions)
        )
    agent = AGENTS[args.agent](
        q_function,
        optimizers.RMSpropEpsInsideSqrt(q_function.parameters(), lr=args.lr, alpha=0.95, eps=1e-2, centered=True),
        replay_buffer,
        gamma=0.99,
        explorer=explorer,
        gpu=args.gpu,
        replay_start_size=args.replay_start_size,
        minibatch_size=args.batch_size,
        update_interval=args.update_interval,
        target_update_interval=args.target_update_interval,
        phi=phi,
    )
    if args.load:
        agent.load(args.load)

    if args.demo:
        scores = experiments.eval_performance(eval_env, agent, n_steps=None, n_episodes=args.eval_n_runs)
        print(f"n_runs: {args.eval_n_runs} mean: {scores['mean']} median: {scores['median']} stdev: {scores['stdev']}")
        return

    outdir = experiments.prepare_output_dir(args, args.outdir)
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
    print(f"Results are in {outdir}; evaluate the agent with the same flags and --demo --load {saved}")


if __name__ == "__main__":
    main()
