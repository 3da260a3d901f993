"""DQN (or Double DQN) on any environment with discrete actions and vector observations.

For example: `python examples/gym/train_dqn.py --env CartPole-v1 --steps 50000`, then with `--demo --load` the
directory of the agent that it saved.
"""

import argparse

import common
import gymnasium
import torch

from pfrl_like import agents, explorers, q_functions, replay_buffers


def parse_args() -> argparse.Namespace:
    parser = common.make_parser(__doc__)
    common.add_discrete_flags(parser, ["DQN", "DoubleDQN"])
    parser.add_argument("--n-hidden-channels", type=int, default=128, help="width of the hidden layers")
    parser.add_argument("--n-hidden-layers", type=int, default=2, help="how many there are")
    parser.add_argument("--lr", type=float, default=1e-3, help="Adam's learning rate")
    parser.add_argument("--start-epsilon", type=float, default=1.0, help="share of random actions at first")
    parser.add_argument("--end-epsilon", type=float, default=0.04, help="and at last")
    parser.add_argument("--num-step-return", type=int, default=1, help="steps of the return that is learnt from")
    parser.add_argument("--prioritized-replay", action="store_true", help="draw transitions by their TD errors")
    parser.add_argument("--compile", action="store_true", help="compile the update, in about half a minute")
    parser.add_argument("--render", action="store_true", help="show evaluations; needs pygame: the extra `classic`")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    env, eval_env = common.make_envs(args, gymnasium.spaces.Discrete, args.render)
    common.seed(args, env, eval_env)

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
    common.run(args, agent, env, eval_env)


if __name__ == "__main__":
    main()
