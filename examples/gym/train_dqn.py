"""DQN (or Double DQN) on any environment with discrete actions and vector observations.

For example: `python examples/gym/train_dqn.py --env CartPole-v1 --steps 50000`, then with `--demo --load` the
directory of the agent that it saved.
"""

import argparse
from pathlib import Path

import gymnasium
import torch

from pfrl_like import agents, experiments, explorers, q_functions, replay_buffers, utils


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--env", default="CartPole-v1", help="a registered environment of gymnasium")
    parser.add_argument("--agent", default="DQN", choices=["DQN", "DoubleDQN"], help="kind of agent")
    parser.add_argument("--outdir", default="results", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--gpu", type=int, default=None, help="CUDA device; the CPU without it")
    parser.add_argument("--steps", type=int, default=50_000, help="environment steps of training")
    parser.add_argument("--n-hidden-channels", type=int, default=128, help="width of the hidden layers")
    parser.add_argument("--n-hidden-layers", type=int, default=2, help="how many there are")
    parser.add_argument("--lr", type=float, default=1e-3, help="Adam's learning rate")
    parser.add_argument("--gamma", type=float, default=0.99, help="discount factor per step")
    parser.add_argument("--minibatch-size", type=int, default=64, help="transitions of an update")
    parser.add_argument("--replay-start-size", type=int, default=1_000, help="steps before the first update")
    parser.add_argument("--update-interval", type=int, default=2, help="steps between updates")
    parser.add_argument("--target-update-interval", type=int, default=200, help="of the target network")
    parser.add_argument("--start-epsilon", type=float, default=1.0, help="share of random actions at first")
    parser.add_argument("--end-epsilon", type=float, default=0.04, help="and at last")
    parser.add_argument("--final-exploration-steps", type=int, default=8_000, help="steps until the last epsilon")
    parser.add_argument("--num-step-return", type=int, default=1, help="steps of the return that is learnt from")
    parser.add_argument("--prioritized-replay", action="store_true", help="draw transitions by their TD errors")
    parser.add_argument("--compile", action="store_true", help="compile the update, in about half a minute")
    parser.add_argument("--eval-n-runs", type=int, default=20, help="episodes of each evaluation")
    parser.add_argument("--eval-interval", type=int, default=5_000, help="steps between evaluations")
    parser.add_argument("--load", default=None, help="directory of a saved agent: in that of a run, <t>_finish or best")
    parser.add_argument("--demo", action="store_true", help="evaluate only")
    parser.add_argument("--render", action="store_true", help="show evaluations; needs pygame: the extra `classic`")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)  # networks this small are slower on several threads
    utils.set_random_seed(args.seed)
    env = gymnasium.make(args.env)
    eval_env = gymnasium.make(args.env, render_mode="human" if args.render else None)
    if len(env.observation_space.shape or ()) != 1 or not isinstance(env.action_space, gymnasium.spaces.Discrete):
        raise SystemExit(
            f"{args.env} has the observations {env.observation_space} and the actions {env.action_space}, but this "
            "example needs vectors and discrete actions"
        )
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
    saved = Path(outdir) / f"{args.steps}_finish"
    print(f"Results are in {outdir}; evaluate the agent with --demo --load {saved}")


if __name__ == "__main__":
    main()
