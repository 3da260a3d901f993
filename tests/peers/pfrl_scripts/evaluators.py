"""Evaluators by hand, evaluation hooks, step hooks as classes, and learning rates that hooks decay."""

import sys
from importlib import import_module
from pathlib import Path

import torch
from parts import Walk, files, keys, q_network, report, scores

pfrl = import_module(sys.argv[1])
Path("hand").mkdir()


class Best(pfrl.experiments.EvaluationHook):
    support_train_agent = True
    support_train_agent_batch = True
    support_train_agent_async = True

    def __init__(self):
        self.seen = []

    def __call__(self, env, agent, evaluator, step, eval_stats, agent_stats, env_stats):
        self.seen.append([step, sorted(eval_stats), round(float(eval_stats["mean"]), 6), keys(agent_stats), env_stats])


class Every(pfrl.experiments.StepHook):
    def __init__(self, interval):
        self.interval, self.steps = interval, []

    def __call__(self, env, agent, step):
        if step % self.interval == 0:
            self.steps.append([step, agent.optim_t])


class WithStatistics(Walk):
    def get_statistics(self):
        return [("resets", self.n_resets)]

    def clear_statistics(self):
        pass


def lr_setter(env, agent, value):
    for group in agent.optimizer.param_groups:
        group["lr"] = value


env, eval_env, q_func = Walk(9), WithStatistics(4), q_network()
agent = pfrl.agents.DQN(
    q_func,
    torch.optim.Adam(q_func.parameters(), lr=1e-3),
    pfrl.replay_buffers.ReplayBuffer(500),
    0.9,
    pfrl.explorers.ConstantEpsilonGreedy(0.2, env.action_space.sample),
    replay_start_size=32,
)
hook, every = Best(), Every(25)
decay = pfrl.experiments.LinearInterpolationHook(200, 1e-3, 0, lr_setter)
pfrl.experiments.train_agent_with_evaluation(
    agent,
    env,
    steps=100,
    eval_n_steps=None,
    eval_n_episodes=2,
    eval_interval=30,
    outdir="out",
    eval_env=eval_env,
    step_hooks=[decay, every],
    evaluation_hooks=[hook],
    train_max_episode_len=6,
)
evaluator = pfrl.experiments.evaluator.Evaluator(
    agent=agent,
    env=eval_env,
    n_steps=None,
    n_episodes=3,
    eval_interval=10,
    outdir="hand",
    max_episode_len=3,
    save_best_so_far_agent=False,
)
results = [evaluator.evaluate_if_necessary(t=t, episodes=t // 5) for t in (5, 10, 15, 20)]
stats = pfrl.experiments.evaluator.eval_performance(env=eval_env, agent=agent, n_steps=10, n_episodes=None)
report(
    hook=hook.seen,
    every=every.steps,
    lr=round(float(agent.optimizer.param_groups[0]["lr"]), 9),
    results=results,
    stats={name: round(float(value), 6) for name, value in stats.items() if name != "stdev"},
    sorted_stats=sorted(stats),
    best=float(evaluator.max_score),
    eval_env=[eval_env.n_steps, eval_env.n_resets],
    hand=scores("hand"),
    scores=scores("out"),
    files=[files("out"), files("hand")],
)
