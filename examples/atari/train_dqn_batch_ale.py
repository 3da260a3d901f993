"""Trains DQN, Double DQN or PAL on several copies of an Atari game at once, each in a process of its own.

    python examples/atari/train_dqn_batch_ale.py --num-envs 4 --gpu 0
    python examples/atari/train_dqn_batch_ale.py --demo --load DIRECTORY

Needs ale-py: the extra `atari`. Settings are those of `train_dqn_ale.py --arch nature`.
Time: days on a CPU; a GPU is meant.
"""

import common
import numpy as np
from torch import nn

from pfrl_like import agents, experiments, explorers, optimizers, q_functions, replay_buffers
from pfrl_like import nn as pnn
from pfrl_like.initializers import init_chainer_default


def phi(frames):
    """Pixels from 0 to 1; the replay buffer keeps them as bytes."""
    return np.asarray(frames, dtype=np.float32) / 255


def main():
    parser = common.make_parser(__doc__)
    common.add_replay_arguments(parser)
    parser.add_argument("--num-envs", type=int, default=4, help="copies of the game")
    parser.add_argument("--agent", default="DQN", choices=["DQN", "DoubleDQN", "PAL"], help="kind of agent")
    parser.add_argument("--no-clip-delta", dest="clip_delta", action="store_false", help="square large TD errors, too")
    parser.add_argument("--final-exploration-frames", type=int, default=10**6, help="steps until the last epsilon")
    parser.add_argument("--final-epsilon", type=float, default=0.1, help="share of random actions at last")
    parser.add_argument("--num-step-return", type=int, default=1, help="steps of the return that is learnt from")
    parser.add_argument("--prioritized", action="store_true", help="draw transitions by their TD errors")
    args = common.parse(parser)
    outdir = common.start(args)
    env, eval_env = common.make_batch_env(args, test=False), common.make_batch_env(args, test=True)
    n_actions = env.action_space.n

    q_function = nn.Sequential(
        pnn.LargeAtariCNN(), init_chainer_default(nn.Linear(512, n_actions)), q_functions.DiscreteActionValueHead()
    )
    explorer = explorers.LinearDecayEpsilonGreedy(
        1.0, args.final_epsilon, args.final_exploration_frames, lambda: np.random.randint(n_actions)
    )
    if args.prioritized:
        n_updates = max(1, args.steps // args.update_interval)  # the last of which corrects the draws in full
        replay_buffer = replay_buffers.PrioritizedReplayBuffer(
            10**6, 0.6, 0.4, n_updates, num_steps=args.num_step_return
        )
    else:
        replay_buffer = replay_buffers.ReplayBuffer(10**6, num_steps=args.num_step_return)
    agent = getattr(agents, args.agent)(
        q_function,
        optimizers.RMSpropEpsInsideSqrt(q_function.parameters(), lr=args.lr, alpha=0.95, eps=1e-2, centered=True),
        replay_buffer,
        gamma=0.99,
        explorer=explorer,
        gpu=args.gpu,
        replay_start_size=args.replay_start_size,
        minibatch_size=args.batch_size,
        update_interval=args.update_interval,
        target_update_interval=args.target_update_interval,
        clip_delta=args.clip_delta,
        phi=phi,
        batch_accumulator="sum",
    )
    common.run(args, agent, outdir, env, eval_env, experiments.train_agent_batch_with_evaluation)
    env.close()
    eval_env.close()


if __name__ == "__main__":  # processes import this file
    main()
