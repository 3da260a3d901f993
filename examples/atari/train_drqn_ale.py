"""DQN with a memory (DRQN, arXiv:1507.06527) on an Atari game, which may flicker; needs ale-py: the extra `atari`.

For example, one frame at a time, half of them dark: `python examples/atari/train_drqn_ale.py --recurrent --flicker
--no-frame-stack`. Without `--recurrent` the same network without the LSTM is trained, to compare.
"""

import argparse

import common
import torch
from torch import nn

from pfrl_like import agents, q_functions, replay_buffers
from pfrl_like import nn as pnn


def parse_args() -> argparse.Namespace:
    parser = common.make_parser(__doc__)
    common.add_exploration_flags(parser, final_epsilon=0.01)
    common.add_watching_flags(parser)
    parser.set_defaults(
        steps=5 * 10**7, lr=1e-4, target_update_interval=30_000, eval_epsilon=0.001, eval_interval=250_000
    )
    parser.add_argument("--recurrent", action="store_true", help="with an LSTM")
    parser.add_argument("--flicker", action="store_true", help="half of the frames are dark")
    parser.add_argument("--no-frame-stack", dest="frame_stack", action="store_false", help="observe one frame only")
    parser.add_argument("--episodic-update-len", type=int, default=10, help="steps of a training sequence")
    return common.parse(parser)


def main() -> None:
    args = parse_args()
    outdir = common.begin(args)
    seen = {"frame_stack": args.frame_stack, "flicker": args.flicker}
    env, eval_env = common.make_env(args, args.seed, test=False, **seen), common.make_watched_env(args, outdir, **seen)
    n_actions = env.action_space.n

    layers = [
        *(nn.Conv2d(4 if args.frame_stack else 1, 32, 8, stride=4), nn.ReLU()),
        *(nn.Conv2d(32, 64, 4, stride=2), nn.ReLU()),
        *(nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten()),
    ]
    head = nn.Linear(512, n_actions), q_functions.DiscreteActionValueHead()
    if args.recurrent:
        q_function: nn.Module = pnn.RecurrentSequential(*layers, nn.LSTM(3136, 512), *head)
        replay_buffer: replay_buffers.ReplayBuffer = replay_buffers.EpisodicReplayBuffer(10**6)
    else:
        q_function = nn.Sequential(*layers, nn.Linear(3136, 512), nn.ReLU(), *head)
        replay_buffer = replay_buffers.ReplayBuffer(10**6)
    agent = agents.DoubleDQN(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=args.lr, eps=1e-4),
        replay_buffer,
        explorer=common.make_explorer(args, n_actions),
        batch_accumulator="mean",
        episodic_update_len=args.episodic_update_len if args.recurrent else None,
        recurrent=args.recurrent,
        **common.agent_options(args),
    )
    common.run(args, agent, outdir, env, eval_env)


if __name__ == "__main__":
    main()
