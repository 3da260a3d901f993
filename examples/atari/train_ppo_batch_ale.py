"""PPO on several copies of an Atari game, each in a process, with the settings of its paper (arXiv:1707.06347).

Needs ale-py: the extra `atari`. For example: `python examples/atari/train_ppo_batch_ale.py --num-envs 8 --gpu 0`, then
with `--demo --load` the directory of the agent that it saved.
"""

import argparse
from functools import partial
from typing import Any

import common
import torch
from torch import nn

from pfrl_like import agents, experiments, policies
from pfrl_like import nn as pnn
from pfrl_like.initializers import init_lecun_normal


def parse_args() -> argparse.Namespace:
    parser = common.make_short_parser(__doc__)
    common.add_gpu_flag(parser)
    common.add_watching_flags(parser)
    parser.add_argument("--num-envs", type=int, default=8, help="copies of the game")
    parser.add_argument("--update-interval", type=int, default=128 * 8, help="steps between updates, of all copies")
    parser.add_argument("--batch-size", type=int, default=32 * 8, help="steps of a minibatch")
    parser.add_argument("--epochs", type=int, default=3, help="how often each step is learnt from")
    parser.add_argument("--recurrent", action="store_true", help="with a memory, which is trained on sequences")
    return common.parse(parser)


def make_linear(n_outputs: int, scale: float) -> nn.Linear:
    layer = nn.Linear(512, n_outputs)
    init_lecun_normal(layer.weight, scale)
    nn.init.zeros_(layer.bias)
    return layer


def main() -> None:
    args = parse_args()
    outdir = common.begin(args)
    env, eval_env = common.make_batch_env(args, test=False), common.make_watched_env(args, outdir)

    heads = pnn.Branched(
        nn.Sequential(make_linear(env.action_space.n, scale=1e-2), policies.SoftmaxCategoricalHead()),
        make_linear(1, scale=1.0),
    )
    if args.recurrent:
        model: nn.Module = pnn.RecurrentSequential(pnn.LargeAtariCNN(), nn.GRU(512, 512), heads)
    else:
        model = nn.Sequential(pnn.LargeAtariCNN(), heads)
    agent = agents.PPO(
        model,
        torch.optim.Adam(model.parameters(), lr=args.lr, eps=1e-5),
        gpu=args.gpu,
        gamma=0.99,
        lambd=0.95,
        phi=common.phi,
        entropy_coef=0.01,
        update_interval=args.update_interval,
        minibatch_size=args.batch_size,
        epochs=args.epochs,
        clip_eps=0.1,
        standardize_advantages=True,
        recurrent=args.recurrent,
        max_grad_norm=0.5,
    )

    def anneal(env: Any, agent: Any, left: float) -> None:
        common.set_learning_rate(env, agent, args.lr * left)
        agent.clip_eps = 0.1 * left

    decay = experiments.LinearInterpolationHook(args.steps, 1.0, 0.0, anneal)
    train = partial(experiments.train_agent_batch_with_evaluation, step_hooks=[decay])
    common.run(args, agent, outdir, env, eval_env, train)
    env.close()


if __name__ == "__main__":
    main()
