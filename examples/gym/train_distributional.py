"""Trains QR-DQN, IQN, Double IQN or FQF on CartPole, or with other vector observations and discrete actions.

    python examples/gym/train_distributional.py --agent IQN
    python examples/gym/train_distributional.py --agent IQN --demo --load DIRECTORY

C51 is in `train_categorical_dqn.py`, Rainbow in `train_rainbow.py`.
Expect: IQN 490.8 [473.5, 500.0], Double IQN 500.0 [500.0, 500.0], QR-DQN 499.8 [499.5, 500.0], FQF 500.0 [500.0, 500.0]
on CartPole after 50,000 steps (10 seeds). These are recorded scores [95 % interval] of `benchmarks/scores.py`, whose
settings differ from those here.
Time: two to five minutes on one core.
"""

import common
import gymnasium
import torch
from torch import nn

from pfrl_like import agents, experiments, explorers, q_functions, replay_buffers

parser = common.make_parser(__doc__)
parser.add_argument("--env", default="CartPole-v1", help="a registered environment of gymnasium")
kinds = ["IQN", "DoubleIQN", "QRDQN", "FQF"]
parser.add_argument("--agent", default="IQN", choices=kinds, help="kind of agent")
parser.add_argument("--gpu", type=int, help="CUDA device; the CPU without it")
parser.add_argument("--n-hidden-channels", type=int, default=256, help="width of the two hidden layers")
parser.add_argument("--lr", type=float, default=2.3e-3, help="Adam's learning rate at first; 0 at last")
parser.add_argument("--gamma", type=float, default=0.99, help="discount factor per step")
parser.add_argument("--minibatch-size", type=int, default=64, help="transitions of an update")
parser.add_argument("--replay-start-size", type=int, default=1_000, help="steps before the first update")
parser.add_argument("--update-interval", type=int, default=256, help="steps between rounds of updates")
parser.add_argument("--n-times-update", type=int, default=128, help="updates in a round")
parser.add_argument("--target-update-interval", type=int, default=256, help="of the target network, in steps")
parser.add_argument("--final-exploration-steps", type=int, default=8_000, help="steps until the last epsilon")
parser.add_argument("--num-step-return", type=int, default=3, help="steps of the return that is learnt from")
parser.add_argument("--n-quantiles", type=int, default=51, help="quantiles of QR-DQN")
parser.add_argument("--n-fractions", type=int, default=8, help="fractions that IQN draws and FQF proposes")
args = parser.parse_args()
env, eval_env = common.make_envs(args, gymnasium.spaces.Discrete)
common.seed(args, env, eval_env)
obs_size, n_actions, hidden = env.observation_space.shape[0], int(env.action_space.n), args.n_hidden_channels

features = nn.Sequential(nn.Linear(obs_size, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
options = {}
if args.agent == "QRDQN":
    q_function = q_functions.QuantileFCStateQFunctionWithDiscreteAction(
        obs_size, n_actions, args.n_quantiles, hidden, n_hidden_layers=2
    )
elif args.agent == "FQF":
    fractions = nn.Sequential(q_functions.CosineBasisLinear(64, hidden), nn.ReLU())
    proposal = nn.Linear(hidden, args.n_fractions)
    q_function = q_functions.FullyParametrizedQFunction(
        features, fractions, nn.Linear(hidden, n_actions), proposal, entropy_coeff=1e-3
    )
else:
    fractions = nn.Sequential(q_functions.CosineBasisLinear(64, hidden), nn.ReLU())
    q_function = q_functions.ImplicitQuantileQFunction(features, fractions, nn.Linear(hidden, n_actions))
    options = {"quantile_thresholds_N": args.n_fractions, "quantile_thresholds_N_prime": args.n_fractions}
    options["act_deterministically"] = True

parameters = q_function.parameters()
if args.agent == "FQF":  # whose fractions learn more slowly
    parameters = q_functions.fqf_parameter_groups(q_function, lr_factor=1e-3)
agent = getattr(agents, args.agent)(
    q_function,
    torch.optim.Adam(parameters, lr=args.lr),
    replay_buffers.ReplayBuffer(50_000, num_steps=args.num_step_return),
    gamma=args.gamma,
    explorer=explorers.LinearDecayEpsilonGreedy(1.0, 0.04, args.final_exploration_steps, env.action_space.sample),
    gpu=args.gpu,
    replay_start_size=args.replay_start_size,
    minibatch_size=args.minibatch_size,
    update_interval=args.update_interval,
    n_times_update=args.n_times_update,
    target_update_interval=args.target_update_interval,
    max_grad_norm=10.0,
    **options,
)


def set_learning_rate(env, agent, value):
    for group in agent.optimizer.param_groups:
        group["lr"] = value * group.get("lr_factor", 1.0)


decay = experiments.LinearInterpolationHook(args.steps, args.lr, 0.0, set_learning_rate)
common.run(args, agent, env, eval_env, step_hooks=[decay])
