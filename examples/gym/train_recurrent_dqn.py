"""Recurrent DQN on a CartPole whose velocities are hidden: what cannot be seen has to be remembered."""

import argparse
from pathlib import Path

import gymnasium
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, experiments, explorers, q_functions, replay_buffers, utils, wrappers
from pfrl_like.nn import RecurrentSequential


class HideVelocities(gymnasium.ObservationWrapper):
    """Leaves the cart's position and the pole's angle, scaled so that the change of one step is seen."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Positions without velocities, float32 [2]."""
        return np.array([5 * observation[0], 20 * observation[2]], dtype=np.float32)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--outdir", default="results", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--gpu", type=int, default=None, help="CUDA device; the CPU without it")
    parser.add_argument("--steps", type=int, default=100_000, help="environment steps of training")
    parser.add_argument("--episodic-update-len", type=int, default=20, help="steps of a training sequence")
    parser.add_argument("--num-steps", type=int, default=3, help="of the returns within a sequence")
    parser.add_argument("--minibatch-size", type=int, default=64, help="sequences in a minibatch")
    parser.add_argument("--replay-start-size", type=int, default=1_000, help="steps before the first update")
    parser.add_argument("--update-interval", type=int, default=256, help="steps between rounds of updates")
    parser.add_argument("--n-times-update", type=int, default=32, help="updates in a round")
    parser.add_argument("--target-update-interval", type=int, default=256, help="of the target network")
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
        nn.GRU(2, 128),
        nn.Linear(128, env.action_space.n),
        q_functions.DiscreteActionValueHead(),
    )
    agent = agents.DQN(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=1e-3),
        replay_buffers.EpisodicReplayBuffer(50_000, by_length=True),
        gamma=0.99,
        explorer=explorers.LinearDecayEpsilonGreedy(1.0, 0.05, 8_000, env.action_space.sample),
        gpu=args.gpu,
        replay_start_size=args.replay_start_size,
        minibatch_size=args.minibatch_size,
        update_interval=args.update_interval,
        n_times_update=args.n_times_update,
        target_update_interval=args.target_update_interval,
        num_steps=args.num_steps,
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

    def set_learning_rate(env: gymnasium.Env, agent: agents.DQN, value: float) -> None:
        for group in agent.optimizer.param_groups:
            group["lr"] = value

    outdir = experiments.prepare_output_dir(args, args.outdir)
    experiments.train_agent_with_evaluation(
        agent,
        wrappers.ScaleReward(env, 0.01),  # so that values are of the size of what a GRU gives
        steps=args.steps,
        eval_n_steps=None,
        eval_n_episodes=args.eval_n_runs,
        eval_interval=args.eval_interval,
        eval_env=eval_env,
        outdir=outdir,
        step_hooks=[experiments.LinearInterpolationHook(args.steps, 1e-3, 0.0, set_learning_rate)],
        progress=True,
    )
    saved = Path(outdir) / f"{args.steps}_finish"
    print(f"Results are in {outdir}; evaluate the agent with --demo --load {saved}")


if __name__ == "__main__":
    main()
