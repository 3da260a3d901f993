"""Categorical DQN (C51, arXiv:1707.06887), plain or double, on an environment with discrete actions."""

import argparse
from pathlib import Path

import gymnasium
import torch

from pfrl_like import agents, experiments, explorers, q_functions, replay_buffers, utils


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--env", default="CartPole-v1", help="a registered environment of gymnasium")
    parser.add_argument(
        "--agent", default="CategoricalDQN", choices=["CategoricalDQN", "CategoricalDoubleDQN"], help="kind of agent"
    )
    parser.add_argument("--outdir", default="results", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--gpu", type=int, default=None, help="CUDA device; the CPU without it")
    parser.add_argument("--steps", type=int, default=50_000, help="environment steps of training")
    parser.add_argument("--n-atoms", type=int, default=51, help="atoms of a return distribution")
    parser.add_argument("--v-min", type=float, default=0.0, help="smallest return that can be told apart")
    parser.add_argument("--v-max", type=float, default=100.0, help="largest; about the largest reward / (1 - gamma)")
    parser.add_argument("--gamma", type=float, default=0.99, help="discount factor per step")
    parser.add_argument("--minibatch-size", type=int, default=64, help="transitions of an update")
    parser.add_argument("--replay-start-size", type=int, default=1_000, help="steps before the first update")
    parser.add_argument("--update-interval", type=int, default=2, help="steps between updates")
    parser.add_argument("--target-update-interval", type=int, default=200, help="of the target network")
    parser.add_argument("--final-exploration-steps", type=int, default=8_000, help="steps until the last epsilon")
    parser.add_argument("--eval-n-runs", type=int, default=20, help="episodes of each evaluation")
    parser.add_argument("--eval-interval", type=int, default=5_000, help="steps between evaluations")
    parser.add_argument("--load", default=None, help="directory of a saved agent: in that of a run, <t>_finish or best")
    parser.add_argument("--demo", action="store_true", help="evaluate only")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)  # networks this small are slower on several threads
    utils.set_random_seed(args.seed)
    env, eval_env = gymnasium.make(args.env), gymnasium.make(args.env)
    if len(env.observation_space.shape or ()) != 1 or not isinstance(env.action_space, gymnasium.spaces.Discrete):
        raise SystemExit(
            f"{args.env} has the observations {env.observation_space} and the actions {env.action_space}, but this "
            "example needs vectors and discrete actions"
        )
    env.reset(seed=args.seed)
    eval_env.reset(seed=args.seed + 1)
    env.action_space.seed(args.seed)

    q_function = q_functions.DistributionalFCStateQFunctionWithDiscreteAction(
        env.observation_space.shape[0],
        env.action_space.n,
        args.n_atoms,
        args.v_min,
        args.v_max,
        n_hidden_channels=128,
        n_hidden_layers=2,
    )
    agent = getattr(agents, args.agent)(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=1e-3),
        replay_buffers.ReplayBuffer(100_000),
        gamma=args.gamma,
        explorer=explorers.LinearDecayEpsilonGreedy(1.0, 0.04, args.final_exploration_steps, env.action_space.sample),
        gpu=args.gpu,
        replay_start_size=args.replay_start_size,
        minibatch_size=args.minibatch_size,
        update_interval=args.update_interval,
        target_update_interval=args.target_update_interval,
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
