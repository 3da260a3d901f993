"""DQN (or Double DQN) on any environment with discrete actions and vector observations.

For example: `python examples/gym/train_dqn.py --env CartPole-v1 --steps 50000`, then with `--demo --load` the
directory of the agent that it saved.
"""

import argparse

import gymnasium
import torch

from pfrl_like import agents, experiments, explorers, q_functions, replay_buffers, utils


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--agent", default="DQN", choices=["DQN", "DoubleDQN"])
    parser.add_argument("--outdir", default="results")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gpu", type=int, default=None, help="CUDA device; the CPU without it")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--n-hidden-channels", type=int, default=128)
    parser.add_argument("--n-hidden-layers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--minibatch-size", type=int, default=64)
    parser.add_argument("--replay-start-size", type=int, default=1_000)
    parser.add_argument("--update-interval", type=int, default=2)
    parser.add_argument("--target-update-interval", type=int, default=200)
    parser.add_argument("--start-epsilon", type=float, default=1.0)
    parser.add_argument("--end-epsilon", type=float, default=0.04)
    parser.add_argument("--final-exploration-steps", type=int, default=8_000)
    parser.add_argument("--num-step-return", type=int, default=1)
    parser.add_argument("--prioritized-replay", action="store_true")
    parser.add_argument("--compile", action="store_true", help="compile the update: slow to start, then much faster")
    parser.add_argument("--eval-n-runs", type=int, default=20)
    parser.add_argument("--eval-interval", type=int, default=5_000)
    parser.add_argument("--load", default=None, help="directory of a saved agent")
    parser.add_argument("--demo", action="store_true", help="evaluate only")
    parser.add_argument("--render", action="store_true", help="show the evaluation on the screen")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)  # networks this small are slower on several threads
    utils.set_random_seed(args.seed)
    env = gymnasium.make(args.env)
    eval_env = gymnasium.make(args.env, render_mode="human" if args.render else None)
    env.reset(seed=args.seed)
    eval_env.reset(seed=args.seed + 1)
    env.action_space.seed(args.seed)

    q_function = q_functions.FCStateQFunctionWithDiscreteAction(
        env.observation_space.shape[0], env.action_space.n, args.n_hidden_channels, args.n_hidden_layers
    )
    make_buffer = replay_buffers.PrioritizedReplayBuffer if args.prioritized_replay else replay_buffers.ReplayBuffer
    agent = getattr(agents, args.agent)(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=args.lr),
        make_buffer(100_000, num_steps=args.num_step_return),
        gamma=args.gamma,
        explorer=explorers.LinearDecayEpsilonGreedy(
            args.start_epsilon, args.end_epsilon, args.final_exploration_steps, env.action_space.sample
        ),
        gpu=args.gpu,
        replay_start_size=args.replay_start_size,
        minibatch_size=args.minibatch_size,
        update_interval=args.update_interval,
        target_update_interval=args.target_update_interval,
        max_grad_norm=10.0,
        compile=args.compile,
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
    print(f"Results are in {outdir}")


if __name__ == "__main__":
    main()
