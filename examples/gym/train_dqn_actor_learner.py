"""Trains DQN or Double DQN whose steps are made by actors in processes of their own, while this one learns.

    python examples/gym/train_dqn_actor_learner.py --env CartPole-v1 --n-actors 2
    python examples/gym/train_dqn_actor_learner.py --env CartPole-v1 --demo --load DIRECTORY

Time: about two minutes on two cores.
"""

from functools import partial

import common
import gymnasium
import torch

from pfrl_like import agents, experiments, explorers, q_functions, replay_buffers


def make_env(name, seed, process_idx, test):
    env = gymnasium.make(name)
    env.reset(seed=seed + 1000 * process_idx + test)
    return env


def main():
    parser = common.make_parser(__doc__)
    parser.add_argument("--env", default="CartPole-v1", help="a registered environment of gymnasium")
    parser.add_argument("--agent", default="DQN", choices=["DQN", "DoubleDQN"], help="kind of agent")
    parser.add_argument("--n-actors", "--num-envs", type=int, default=2, help="processes, each with an environment")
    parser.add_argument("--gpu", type=int, help="CUDA device of the learner; the CPU without it")
    parser.add_argument("--updates-per-step", type=float, default=0.5, help="0: each side runs as fast as it can")
    parser.add_argument("--n-updates", type=int, help="updates after which training ends, too")
    parser.add_argument("--actor-update-interval", type=int, default=8, help="updates until actors get new parameters")
    parser.add_argument("--n-hidden-channels", type=int, default=128, help="width of the hidden layers")
    parser.add_argument("--n-hidden-layers", type=int, default=2, help="how many there are")
    parser.add_argument("--lr", type=float, default=1e-3, help="Adam's learning rate")
    parser.add_argument("--gamma", type=float, default=0.99, help="discount factor per step")
    parser.add_argument("--minibatch-size", type=int, default=64, help="transitions of an update")
    parser.add_argument("--replay-start-size", type=int, default=1_000, help="steps before the first update")
    parser.add_argument("--target-update-interval", type=int, default=100, help="updates between those of the target")
    parser.add_argument("--start-epsilon", type=float, default=1.0, help="share of random actions at first")
    parser.add_argument("--end-epsilon", type=float, default=0.04, help="and at last")
    parser.add_argument("--final-exploration-steps", type=int, default=8_000, help="steps until the last epsilon")
    parser.add_argument("--num-step-return", type=int, default=1, help="steps of the return that is learnt from")
    parser.add_argument("--prioritized-replay", action="store_true", help="draw transitions by their TD errors")
    args = parser.parse_args()
    env, eval_env = common.make_envs(args, gymnasium.spaces.Discrete)
    common.seed(args, env, eval_env)

    q_function = q_functions.FCStateQFunctionWithDiscreteAction(
        env.observation_space.shape[0], env.action_space.n, args.n_hidden_channels, args.n_hidden_layers
    )
    explorer = explorers.LinearDecayEpsilonGreedy(
        args.start_epsilon, args.end_epsilon, args.final_exploration_steps, env.action_space.sample
    )
    make_buffer = replay_buffers.PrioritizedReplayBuffer if args.prioritized_replay else replay_buffers.ReplayBuffer
    agent = getattr(agents, args.agent)(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=args.lr),
        make_buffer(100_000, num_steps=args.num_step_return),
        gamma=args.gamma,
        explorer=explorer,
        gpu=args.gpu,
        replay_start_size=args.replay_start_size,
        minibatch_size=args.minibatch_size,
        target_update_interval=args.target_update_interval,
        max_grad_norm=10.0,
    )

    def train(agent, make_env, eval_env, **options):  # an actor evaluates, in an environment of its own
        experiments.train_agent_actor_learner(agent, make_env, **options)

    common.run(
        args, agent, partial(make_env, args.env, args.seed), eval_env, train,
        n_actors=args.n_actors,
        n_updates=args.n_updates,
        actor_update_interval=args.actor_update_interval,
        updates_per_step=args.updates_per_step or None,
        random_seeds=[args.seed + i for i in range(args.n_actors)],
    )  # fmt: skip
    print(f"{agent.optim_t} updates in {agent.t} steps")


if __name__ == "__main__":  # processes import this file
    main()
