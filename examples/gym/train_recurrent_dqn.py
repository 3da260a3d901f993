"""Recurrent DQN on a CartPole whose velocities are hidden: what cannot be seen has to be remembered."""

import argparse
from pathlib import Path

import gymnasium
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, experiments, explorers, q_functions, replay_buffers, utils
from pfrl_like.nn import RecurrentSequential


class HideVelocities(gymnasium.ObservationWrapper):
    """Leaves the cart's position and the pole's angle of CartPole's observation, each divided by its limit."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Positions without velocities, float32 [2]."""
        return np.array([observation[0] / 2.4, observation[2] / 0.2095], dtype=np.float32)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--outdir", default="results", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--gpu", type=int, default=None, help="CUDA device; the CPU without it")
    parser.add_argument("--steps", type=int, default=100_000, help="environment steps of training")
    parser.add_argument("--episodic-update-len", type=int, default=10, help="steps of a training sequence")
    parser.add_argument("--minibatch-size", type=int, default=32, help="sequences in a minibatch")
    parser.add_argument("--replay-start-size", type=int, default=1_000, help="steps before the first update")
    parser.add_argument("--update-interval", type=int, default=4, help="steps between updates")
    parser.add_argument("--target-update-interval", type=int, default=400, help="of the target network")
    parser.add_argument("--eval-n-runs", type=int, default=20, help="episodes of each evaluation")
    parser.add_argument("--eval-interval", type=int, default=10_000, help="steps between evaluations")
    parser.add_argument("--load", default=None, help="directory of a saved agent: in that of a run, <t>_finish or best")
    parser.add_argument("--demo", action="store_true", help="evaluate only")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)  # networks this small are slower on several threads
    utils.set_random_seed(args.seed)
    env, eval_env = (HideVelocities(gymnasium.make("CartPole-v1")) for _ in range(2))
    env.reset(seed=args.seed)
    eval_env.reset(seed=args.seed + 1)
    env.action_space.seed(args.seed)

    q_function = RecurrentSequential(
        nn.Linear(2, 64),
        nn.ReLU(),
        nn.LSTM(64, 64),
        nn.Linear(64, env.action_space.n),
        q_functions.DiscreteActionValueHead(),
    )
    agent = agents.DQN(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=1e-3),
        replay_buffers.EpisodicReplayBuffer(100_000),
        gamma=0.99,
        explorer=explorers.LinearDecayEpsilonGreedy(1.0, 0.05, 10_000, env.action_space.sample),
        gpu=args.gpu,
        replay_start_size=args.replay_start_size,
        minibatch_size=args.minibatch_size,
        update_interval=args.update_interval,
        target_update_interval=args.target_update_interval,
        episodic_update_len=args.episodic_update_len,
        recurrent=True,
        max_grad_norm=10.0,
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
        progress=True,
    )
    saved = Path(outdir) / f"{args.steps}_finish"
    print(f"Results are in {outdir}; evaluate the agent with --demo --load {saved}")


if __name__ == "__main__":
    main()
