"""NAF, which is DQN (or Double DQN) with a Q-function quadratic in continuous actions (arXiv:1603.00748).

For example: `python examples/gym/train_naf_pendulum.py --steps 20000`, then with `--demo --load` the directory of the
agent that it saved.
"""

import argparse
from pathlib import Path

import gymnasium
import torch

from pfrl_like import agents, experiments, explorers, q_functions, replay_buffers, utils


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--env", default="Pendulum-v1", help="a registered environment with bounded continuous actions")
    parser.add_argument("--agent", default="DoubleDQN", choices=["DQN", "DoubleDQN"], help="kind of agent")
    parser.add_argument("--outdir", default="results", help="runs go into folders below this one")
    parser.add_argument("--seed", type=int, default=0, help="of all random streams")
    parser.add_argument("--gpu", type=int, default=None, help="CUDA device; the CPU without it")
    parser.add_argument("--steps", type=int, default=20_000, help="environment steps of training")
    parser.add_argument("--n-hidden-channels", type=int, default=100, help="width of the hidden layers")
    parser.add_argument("--n-hidden-layers", type=int, default=2, help="how many there are")
    parser.add_argument("--lr", type=float, default=1e-3, help="Adam's learning rate")
    parser.add_argument("--gamma", type=float, default=0.99, help="discount factor per step")
    parser.add_argument("--minibatch-size", type=int, default=64, help="transitions of an update")
    parser.add_argument("--replay-start-size", type=int, default=1_000, help="steps before the first update")
    parser.add_argument("--soft-update-tau", type=float, default=1e-2, help="step of the target network, each update")
    parser.add_argument("--reward-scale-factor", type=float, default=0.1, help="rewards are multiplied by it")
    parser.add_argument("--noise", default="ou", choices=["ou", "gaussian"], help="kind of exploration")
    parser.add_argument("--noise-scale", type=float, default=0.2, help="of the noise, in halves of the actions' range")
    parser.add_argument("--num-step-return", type=int, default=1, help="steps of the return that is learnt from")
    parser.add_argument("--prioritized-replay", action="store_true", help="draw transitions by their TD errors")
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
    action_space = env.action_space
    if len(env.observation_space.shape or ()) != 1 or not isinstance(action_space, gymnasium.spaces.Box):
        raise SystemExit(
            f"{args.env} has the observations {env.observation_space} and the actions {action_space}, but this "
            "example needs vectors and continuous actions"
        )
    env = gymnasium.wrappers.TransformReward(env, lambda reward: reward * args.reward_scale_factor)
    env.reset(seed=args.seed)
    eval_env.reset(seed=args.seed + 1)

    q_function = q_functions.FCQuadraticStateQFunction(
        env.observation_space.shape[0],
        action_space.shape[0],
        args.n_hidden_channels,
        args.n_hidden_layers,
        action_space,
    )
    noise_scale = args.noise_scale * (action_space.high - action_space.low) / 2
    if args.noise == "ou":
        explorer = explorers.AdditiveOU(sigma=noise_scale)
    else:
        explorer = explorers.AdditiveGaussian(noise_scale, action_space.low, action_space.high)
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
        target_update_interval=1,
        target_update_method="soft",
        soft_update_tau=args.soft_update_tau,
        max_grad_norm=10.0,
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
