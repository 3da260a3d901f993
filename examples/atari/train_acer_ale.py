"""Trains ACER (arXiv:1611.01224) on an Atari game, in several processes, each with a replay buffer of its own.

    python examples/atari/train_acer_ale.py --processes 16
    python examples/atari/train_acer_ale.py --demo --load DIRECTORY

Needs ale-py: the extra `atari`.
Time: days on 16 cores.
"""

from functools import partial

import common
import numpy as np
from torch import nn

from pfrl_like import agents, experiments, optimizers, policies, q_functions, replay_buffers
from pfrl_like import nn as pnn
from pfrl_like.agents.acer import ACERDiscreteActionHead
from pfrl_like.initializers import init_chainer_default


def phi(frames):
    """Pixels from 0 to 1; the replay buffer keeps them as bytes."""
    return np.asarray(frames, dtype=np.float32) / 255


def set_learning_rate(env, agent, value):
    for group in agent.optimizer.param_groups:
        group["lr"] = value


def main():
    parser = common.make_parser(__doc__)
    common.add_watching_arguments(parser)
    parser.set_defaults(steps=8 * 10**7, lr=7e-4)
    parser.add_argument("--processes", type=int, default=16, help="that play and learn, of one thread each")
    parser.add_argument("--t-max", type=int, default=5, help="steps between updates")
    parser.add_argument("--beta", type=float, default=1e-2, help="weight of the entropy")
    parser.add_argument("--profile", action="store_true", help="write what each process spent its time on")
    parser.add_argument("--replay-start-size", type=int, default=10_000, help="steps of a process before replay")
    parser.add_argument("--n-times-replay", type=int, default=4, help="updates from replay for each one without")
    parser.add_argument("--use-lstm", action="store_true", help="with a memory")
    args = common.parse(parser)
    outdir = common.start(args)
    eval_env = common.make_eval_env(args, outdir)

    n_actions, n_features = eval_env.action_space.n, 512 if args.use_lstm else 256
    policy_output = init_chainer_default(nn.Linear(n_features, n_actions))
    q_output = init_chainer_default(nn.Linear(n_features, n_actions))
    head = ACERDiscreteActionHead(
        nn.Sequential(policy_output, policies.SoftmaxCategoricalHead()),
        nn.Sequential(q_output, q_functions.DiscreteActionValueHead()),
    )
    if args.use_lstm:
        model = pnn.RecurrentSequential(pnn.SmallAtariCNN(), nn.LSTM(256, 512), head)
    else:
        model = nn.Sequential(pnn.SmallAtariCNN(), head)
    agent = agents.ACER(
        model,
        optimizers.SharedRMSpropEpsInsideSqrt(model.parameters(), lr=args.lr, alpha=0.99, eps=4e-3),
        t_max=args.t_max,
        gamma=0.99,
        replay_buffer=replay_buffers.EpisodicReplayBuffer(10**6 // args.processes),
        beta=args.beta,
        phi=phi,
        n_times_replay=args.n_times_replay,
        replay_start_size=args.replay_start_size,
        max_grad_norm=40.0,
        recurrent=args.use_lstm,
    )
    decay = experiments.LinearInterpolationHook(args.steps, args.lr, 0.0, set_learning_rate)
    common.run(
        args, agent, outdir, partial(common.make_env_of_process, args), eval_env, common.run_async,
        processes=args.processes,
        profile=args.profile,
        random_seeds=[args.seed * args.processes + i for i in range(args.processes)],
        global_step_hooks=[decay],
    )  # fmt: skip


if __name__ == "__main__":  # processes import this file
    main()
