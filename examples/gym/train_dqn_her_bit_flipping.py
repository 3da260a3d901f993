"""DQN with hindsight experience replay on bit flipping, a task whose reward is hardly ever met by chance.

For example: `python examples/gym/train_dqn_her_bit_flipping.py --n-bits 15`, and the same with `--no-her`, which does
not learn. A score is the share of episodes that reach the goal, as an episode earns 1 there and nothing else.
"""

import argparse
from pathlib import Path

import gymnasium
import torch

from pfrl_like import agents, experiments, explorers, q_functions, replay_buffers, utils
from pfrl_like.envs.bit_flipping import BitFlipping
from pfrl_like.utils.goals import concatenate_goal


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--n-bits", type=int, default=10, help="bits to flip, and actions")
    parser.add_argument("--no-her", action="store_true", help="plain replay: goals stay as they were")
    parser.add_argument(
        "--strategy", default="future", choices=["future", "final", "episode"], help="goals in hindsight"
    )
    parser.add_argument("--n-goals", type=int, default=4, help="transitions with another goal for each with its own")
    parser.add_argument("--outdir", default="results", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--gpu", type=int, default=None, help="CUDA device; the CPU without it")
    parser.add_argument("--steps", type=int, default=10_000, help="environment steps of training")
    parser.add_argument("--n-hidden-channels", type=int, default=256, help="width of the hidden layer")
    parser.add_argument("--lr", type=float, default=1e-3, help="Adam's learning rate")
    parser.add_argument("--gamma", type=float, default=0.98, help="discount factor per step")
    parser.add_argument("--minibatch-size", type=int, default=128, help="transitions of an update")
    parser.add_argument("--replay-start-size", type=int, default=500, help="steps before the first update")
    parser.add_argument("--target-update-interval", type=int, default=200, help="of the target network")
    parser.add_argument("--start-epsilon", type=float, default=1.0, help="share of random actions at first")
    parser.add_argument("--end-epsilon", type=float, default=0.1, help="and at last")
    parser.add_argument("--final-exploration-steps", type=int, default=5_000, help="steps until the last epsilon")
    parser.add_argument("--num-step-return", type=int, default=1, help="steps of the return that is learnt from")
    parser.add_argument("--eval-n-runs", type=int, default=100, help="episodes of each evaluation")
    parser.add_argument("--eval-interval", type=int, default=2_000, help="steps between evaluations")
    parser.add_argument("--load", default=None, help="directory of a saved agent: in that of a run, <t>_finish or best")
    parser.add_argument("--demo", action="store_true", help="evaluate only")
    return parser.parse_args()


class SuccessAsReward(gymnasium.RewardWrapper):
    """Earns 1 at the goal and nothing elsewhere, so that mean returns are success rates."""

    def reward(self, reward):
        return reward + 1.0


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)  # networks this small are slower on several threads
    utils.set_random_seed(args.seed)
    env, eval_env = BitFlipping(args.n_bits), SuccessAsReward(BitFlipping(args.n_bits))
    env.reset(seed=args.seed)
    eval_env.reset(seed=args.seed + 1)
    env.action_space.seed(args.seed)

    q_function = q_functions.FCStateQFunctionWithDiscreteAction(2 * args.n_bits, args.n_bits, args.n_hidden_channels, 1)
    if args.no_her:
        replay_buffer = replay_buffers.ReplayBuffer(100_000, num_steps=args.num_step_return)
    else:
        replay_buffer = replay_buffers.HindsightReplayBuffer(
            100_000,
            env.compute_reward,
            strategy=args.strategy,
            n_goals=args.n_goals,
            num_steps=args.num_step_return,
            terminated_fn=env.compute_terminated,
        )
    agent = agents.DoubleDQN(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=args.lr),
        replay_buffer,
        gamma=args.gamma,
        explorer=explorers.LinearDecayEpsilonGreedy(
            args.start_epsilon, args.end_epsilon, args.final_exploration_steps, env.action_space.sample
        ),
        gpu=args.gpu,
        replay_start_size=args.replay_start_size,
        minibatch_size=args.minibatch_size,
        update_interval=1,
        target_update_interval=args.target_update_interval,
        phi=concatenate_goal,
    )
    if args.load:
        agent.load(args.load)

    if args.demo:
        scores = experiments.eval_performance(eval_env, agent, n_steps=None, n_episodes=args.eval_n_runs)
        print(f"n_runs: {args.eval_n_runs} success rate: {scores['mean']}")
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
