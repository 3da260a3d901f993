"""Trains DQN with hindsight experience replay (arXiv:1707.01495) on bit flipping, where chance hardly meets the goal.

    python examples/gym/train_dqn_her_bit_flipping.py --n-bits 15
    python examples/gym/train_dqn_her_bit_flipping.py --n-bits 15 --demo --load DIRECTORY

`--no-her` trains without it, to compare. A score is the share of episodes that reach the goal.
Time: about a minute on one core.
"""

import common
import gymnasium
import torch

from pfrl_like import agents, explorers, q_functions, replay_buffers
from pfrl_like.envs.bit_flipping import BitFlipping
from pfrl_like.utils.goals import concatenate_goal


class SuccessAsReward(gymnasium.RewardWrapper):
    """Earns 1 at the goal and nothing elsewhere, so that mean returns are success rates."""

    def reward(self, reward):
        return reward + 1.0


parser = common.make_parser(__doc__)
parser.set_defaults(steps=10_000, eval_n_runs=100, eval_interval=2_000)
parser.add_argument("--gpu", type=int, help="CUDA device; the CPU without it")
parser.add_argument("--minibatch-size", type=int, default=128, help="transitions of an update")
parser.add_argument("--replay-start-size", type=int, default=500, help="steps before the first update")
parser.add_argument("--n-bits", type=int, default=10, help="bits to flip, and actions")
parser.add_argument("--no-her", action="store_true", help="plain replay: goals stay as they were")
parser.add_argument("--strategy", default="future", choices=["future", "final", "episode"], help="goals in hindsight")
parser.add_argument("--n-goals", type=int, default=4, help="transitions with another goal for each with its own")
parser.add_argument("--n-hidden-channels", type=int, default=256, help="width of the hidden layer")
parser.add_argument("--lr", type=float, default=1e-3, help="Adam's learning rate")
parser.add_argument("--gamma", type=float, default=0.98, help="discount factor per step")
parser.add_argument("--target-update-interval", type=int, default=200, help="of the target network, in steps")
parser.add_argument("--start-epsilon", type=float, default=1.0, help="share of random actions at first")
parser.add_argument("--end-epsilon", type=float, default=0.1, help="and at last")
parser.add_argument("--final-exploration-steps", type=int, default=5_000, help="steps until the last epsilon")
parser.add_argument("--num-step-return", type=int, default=1, help="steps of the return that is learnt from")
args = parser.parse_args()
env, eval_env = BitFlipping(args.n_bits), SuccessAsReward(BitFlipping(args.n_bits))
common.seed(args, env, eval_env)

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
common.run(args, agent, env, eval_env)
