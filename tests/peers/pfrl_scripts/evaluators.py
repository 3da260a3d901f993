"""Evaluators by hand, evaluation hooks, step hooks as classes, and learning rates that hooks decay."""

from pathlib import Path

from parts import Walk, counts, dqn, files, keys, pfrl, report, scores, set_lr, train

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


env, eval_env, agent = Walk(9), WithStatistics(4), dqn()
hook, every = Best(), Every(25)
decay = pfrl.experiments.LinearInterpolationHook(200, 1e-3, 0, set_lr)
options = dict(eval_env=eval_env, step_hooks=[decay, every], evaluation_hooks=[hook], train_max_episode_len=6)
train(agent, env, steps=100, eval_interval=30, **options)
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
    None,
    "out",
    hook=hook.seen,
    every=every.steps,
    lr=round(float(agent.optimizer.param_groups[0]["lr"]), 9),
    results=results,
    stats={name: round(float(value), 6) for name, value in stats.items() if name != "stdev"},
    sorted_stats=sorted(stats),
    best=float(evaluator.max_score),
    eval_env=counts(eval_env),
    hand=scores("hand"),
    files=[files("out"), files("hand")],
)
