"""A3C with local functions, hooks at global steps and evaluations."""

import sys
from importlib import import_module
from pathlib import Path

import torch
from parts import Walk, files, keys, report, scores
from torch import nn

pfrl = import_module(sys.argv[1])


def main():
    Path("out").mkdir()

    def make_env(process_idx, test):
        return Walk(5 if test else 8)

    def phi(obs):
        return obs * 1.0

    model = pfrl.nn.Branched(
        nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3), pfrl.policies.SoftmaxCategoricalHead()),
        nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)),
    )
    opt = pfrl.optimizers.SharedRMSpropEpsInsideSqrt(model.parameters(), lr=7e-4, eps=1e-1, alpha=0.99)
    agent = pfrl.agents.A3C(model, opt, t_max=5, gamma=0.99, beta=1e-2, phi=phi, max_grad_norm=40.0)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    counter = torch.zeros(1, dtype=torch.int64).share_memory_()

    def count(env, agent, step):
        counter.add_(1)

    def lr_setter(env, agent, value):
        for group in agent.optimizer.param_groups:
            group["lr"] = value

    pfrl.experiments.train_agent_async(
        agent=agent,
        outdir="out",
        processes=1,
        random_seeds=[0],
        make_env=make_env,
        profile=False,
        steps=200,
        eval_n_steps=None,
        eval_n_episodes=2,
        eval_interval=50,
        max_episode_len=6,
        global_step_hooks=[pfrl.experiments.LinearInterpolationHook(200, 7e-4, 0, lr_setter), count],
    )
    table = scores("out")
    report(
        learnt=any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=False)),
        hooks=int(counter),
        columns=table["columns"],
        evaluations=[row[0] for row in table["rows"]],
        means=[r[2] for r in table["rows"]],
        files=files("out"),
        keys=keys(agent.get_statistics()),
    )


if __name__ == "__main__":
    main()
