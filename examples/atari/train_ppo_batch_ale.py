"""Trains PPO on several copies of an Atari game, with the settings of its paper (arXiv:1707.06347).

    python examples/atari/train_ppo_batch_ale.py --num-envs 8 --gpu 0
    python examples/atari/train_ppo_batch_ale.py --demo --load DIRECTORY

Each copy is in a process. Needs ale-py: the extra `atari`.
Time: days on a CPU; a GPU is meant.
"""

import common
import numpy as np
import torch
from torch import nn

from pfrl_like import agents, experiments, policies
from pfrl_like import nn as pnn
from pfrl_like.initializers import init_lecun_normal


def phi(frames):
    """Pixels from 0 to 1."""
    return np.asarray(frames, dtype=np.float32) / 255


def main():
    parser = common.make_parser(__doc__)
    common.add_watching_arguments(parser)
    parser.add_argument("--gpu", type=int, help="CUDA device; the CPU without it")
    parser.add_argument("--num-envs", type=int, default=8, help="copies of the game")
    parser.add_argument("--update-interval", type=int, default=128 * 8, help="steps between updates, of all copies")
    parser.add_argument("--batch-size", type=int, default=32 * 8, help="steps of a minibatch")
    parser.add_argument("--epochs", type=int, default=3, help="how often each step is learnt from")
    parser.add_argument("--recurrent", action="store_true", help="with a memory, which is trained on sequences")
    args = common.parse(parser)
    outdir = common.start(args)
    env, eval_env = common.make_batch_env(args, test=False), common.make_eval_env(args, outdir)

    policy_output = nn.Linear(512, env.action_space.n)
    init_lecun_normal(policy_output.weight, 1e-2)
    value_function = nn.Linear(512, 1)
    init_lecun_normal(value_function.weight, 1.0)
    for layer in (policy_output, value_function):
        nn.init.zeros_(layer.bias)
    heads = pnn.Branched(nn.Sequential(policy_output, policies.SoftmaxCategoricalHead()), value_function)
    if args.recurrent:
        model = pnn.RecurrentSequential(pnn.LargeAtariCNN(), nn.GRU(512, 512), heads)
    else:
        model = nn.Sequential(pnn.LargeAtariCNN(), heads)
    agent = agents.PPO(
        model,
        torch.optim.Adam(model.parameters(), lr=args.lr, eps=1e-5),
        gpu=args.gpu,
        gamma=0.99,
        lambd=0.95,
        phi=phi,
        entropy_coef=0.01,
        update_interval=args.update_interval,
        minibatch_size=args.batch_size,
        epochs=args.epochs,
        clip_eps=0.1,
        standardize_advantages=True,
        recurrent=args.recurrent,
        max_grad_norm=0.5,
    )

    def anneal(env, agent, left):  # learning rate and clipping fall to 0
        for group in agent.optimizer.param_groups:
            group["lr"] = args.lr * left
        agent.clip_eps = 0.1 * left

    decay = experiments.LinearInterpolationHook(args.steps, 1.0, 0.0, anneal)
    train = experiments.train_agent_batch_with_evaluation
    common.run(args, agent, outdir, env, eval_env, train, step_hooks=[decay])
    env.close()


if __name__ == "__main__":  # processes import this file
    main()
