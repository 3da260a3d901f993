"""Trains DQN on CartPole until it is solved, saves it, loads it into a new agent, and evaluates that one.

    python examples/quickstart.py

Time: about a minute on one core. README.md shows the learning curve.
"""

import argparse
from pathlib import Path

import gymnasium
import torch
from torch import nn

from pfrl_like import agents, experiments, explorers, q_functions, replay_buffers, utils


def make_agent(env):
    """Every part is in sight: exchange any of them for your own."""
    q_function = nn.Sequential(
        nn.Linear(env.observation_space.shape[0], 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, env.action_space.n),
        q_functions.DiscreteActionValueHead(),
    )
    return agents.DQN(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=2e-3),
        replay_buffers.ReplayBuffer(50_000, num_steps=3),
        gamma=0.99,
        explorer=explorers.LinearDecayEpsilonGreedy(1.0, 0.04, 8_000, env.action_space.sample),
        replay_start_size=1_000,
        minibatch_size=64,
        update_interval=256,  # every 256 steps
        n_times_update=128,  # 128 updates in a row, against one and the same target network
        target_update_interval=256,
        max_grad_norm=10.0,
    )


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("--outdir", default="results/quickstart", help="runs go into folders below this one")
parser.add_argument("--seed", type=int, default=0, help="of all random streams")
parser.add_argument("--steps", type=int, default=100_000, help="train at most this long")
parser.add_argument("--eval-interval", type=int, default=2_500, help="steps between evaluations")
parser.add_argument("--eval-n-runs", type=int, default=20, help="episodes of each evaluation")
args = parser.parse_args()

torch.set_num_threads(1)  # networks this small are slower on several threads
utils.set_random_seed(args.seed)
outdir = experiments.prepare_output_dir(args, args.outdir)
env, eval_env = gymnasium.make("CartPole-v1"), gymnasium.make("CartPole-v1")
env.reset(seed=args.seed)
eval_env.reset(seed=args.seed + 1)
env.action_space.seed(args.seed)

agent = make_agent(env)
agent, _ = experiments.train_agent_with_evaluation(
    agent,
    env,
    steps=args.steps,
    eval_n_steps=None,
    eval_n_episodes=args.eval_n_runs,
    eval_interval=args.eval_interval,
    eval_env=eval_env,
    successful_score=475,  # what CartPole-v1 counts as solved
    outdir=outdir,
    progress=True,
)

saved = str(Path(outdir) / "agent")
agent.save(saved)
reloaded = make_agent(env)
reloaded.load(saved)
scores = experiments.eval_performance(eval_env, reloaded, n_steps=None, n_episodes=args.eval_n_runs)
print(f"The reloaded agent's mean return over {args.eval_n_runs} episodes: {scores['mean']:.1f}")
print(f"The agent is in {saved}, which agent.load takes")
print(f"Learning curve: {Path(outdir) / 'learning_curve.svg'}, report: {Path(outdir) / 'report.html'}")
