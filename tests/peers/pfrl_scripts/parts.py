"""Environments and reports of the scripts. `python NAME.py LIBRARY` runs a script on that library."""

import json
import sys
from importlib import import_module
from pathlib import Path

import gym
import numpy as np
import torch
from torch import nn

pfrl = import_module(sys.argv[1])
torch.manual_seed(0)
np.random.seed(0)
torch.set_num_threads(1)


class Walk(gym.Env):
    """Episodes of a given number of steps, each with reward 1; PFRL's interface: `step` returns four values."""

    observation_space = gym.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, length=10):
        self.length = length
        self.n_steps = self.n_resets = self.t = 0

    def observation(self):
        return np.array([1, self.t / self.length, self.t % 2, 0], dtype=np.float32)

    def seed(self, seed=None):
        return [seed]

    def reset(self):
        self.n_resets += 1
        self.t = 0
        return self.observation()

    def step(self, action):
        self.n_steps += 1
        self.t += 1
        return self.observation(), 1.0, self.t >= self.length, {}


class Arm(Walk):
    """The same with continuous actions."""

    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)


def q_network(n_actions=3, n_obs=4):
    head = pfrl.q_functions.DiscreteActionValueHead()
    return nn.Sequential(nn.Linear(n_obs, 16), nn.ReLU(), nn.Linear(16, n_actions), head)


def categorical_policy():
    head = pfrl.policies.SoftmaxCategoricalHead()
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3), head)


def gaussian_policy(n_hidden=16, n_actions=2):
    head = pfrl.policies.GaussianHeadWithStateIndependentCovariance(
        action_size=n_actions, var_type="diagonal", var_func=lambda x: torch.exp(2 * x), var_param_init=0
    )
    return nn.Sequential(nn.Linear(4, n_hidden), nn.Tanh(), nn.Linear(n_hidden, n_actions), head)


def actor_critic(policy):
    return pfrl.nn.Branched(policy, nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)))


def critic():
    return nn.Sequential(pfrl.nn.ConcatObsAndAction(), nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))


def adam(model, **options):
    return torch.optim.Adam(model.parameters(), **options)


def epsilon_greedy(epsilon=0.2):
    return pfrl.explorers.ConstantEpsilonGreedy(epsilon, Walk.action_space.sample)


def dqn(kind=pfrl.agents.DQN, buffer=None, explorer=None, q_func=None, **options):
    """A DQN, by default with a plain buffer, an epsilon-greedy explorer and `q_network`."""
    q_func = q_func or q_network()
    buffer = pfrl.replay_buffers.ReplayBuffer(1000) if buffer is None else buffer
    options = {"replay_start_size": 32, **options}
    return kind(q_func, adam(q_func), buffer, 0.9, explorer or epsilon_greedy(), **options)


def train(agent, env, steps, eval_interval, eval_n_episodes=2, outdir="out", **options):
    """Trains on an environment or a vector environment, with evaluations of whole episodes."""
    runners, vector = pfrl.experiments, isinstance(env, pfrl.env.VectorEnv)
    run = runners.train_agent_batch_with_evaluation if vector else runners.train_agent_with_evaluation
    options = {"eval_n_steps": None, "eval_n_episodes": eval_n_episodes, "eval_interval": eval_interval, **options}
    return run(agent, env, steps=steps, outdir=outdir, **options)


def train_async(**options):
    """Trains on environments of 8 steps and evaluates two episodes of 5 steps, with files in `out`."""
    Path("out").mkdir()
    n = options["processes"]
    options = {"make_env": lambda process_idx, test: Walk(5 if test else 8), "random_seeds": [*range(n)], **options}
    pfrl.experiments.train_agent_async(outdir="out", eval_n_steps=None, eval_n_episodes=2, **options)


def set_lr(env, agent, value):
    for group in agent.optimizer.param_groups:
        group["lr"] = value


def keys(statistics):
    return [name for name, _ in statistics]


def counts(env):
    return [env.n_steps, env.n_resets]


def equal(model, others):
    """For each parameter of a model, True if it equals that of another model or list."""
    return [bool(torch.equal(a, b)) for a, b in zip(model.parameters(), others, strict=True)]


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file())


def scores(folder):
    """Columns of scores.txt, and the steps, episodes and mean returns of its rows."""
    columns, *rows = [line.split("\t") for line in (Path(folder) / "scores.txt").read_text().splitlines()]
    return {"columns": columns, "rows": [[row[0], row[1], float(row[3])] for row in rows]}


def report(agent=None, folder=None, /, **entries):
    """Prints entries, with the names of an agent's statistics and the scores and files of a folder."""
    found = {} if agent is None else {"keys": keys(agent.get_statistics())}
    found |= {} if folder is None else {"scores": scores(folder), "files": files(folder)}
    print(json.dumps({**found, **entries}))
