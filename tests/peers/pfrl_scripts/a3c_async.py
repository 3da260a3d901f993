"""A3C with local functions, hooks at global steps and evaluations."""

import torch
from parts import actor_critic, categorical_policy, equal, files, pfrl, report, scores, set_lr, train_async


def main():
    def phi(obs):
        return obs * 1.0

    model = actor_critic(categorical_policy())
    opt = pfrl.optimizers.SharedRMSpropEpsInsideSqrt(model.parameters(), lr=7e-4, eps=1e-1, alpha=0.99)
    agent = pfrl.agents.A3C(model, opt, t_max=5, gamma=0.99, beta=1e-2, phi=phi, max_grad_norm=40.0)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    counter = torch.zeros(1, dtype=torch.int64).share_memory_()

    def count(env, agent, step):
        counter.add_(1)

    train_async(
        agent=agent,
        processes=1,
        profile=False,
        steps=200,
        eval_interval=50,
        max_episode_len=6,
        global_step_hooks=[pfrl.experiments.LinearInterpolationHook(200, 7e-4, 0, set_lr), count],
    )
    table = scores("out")
    report(
        agent,
        learnt=not all(equal(model, before)),
        hooks=int(counter),
        columns=table["columns"],
        evaluations=[row[0] for row in table["rows"]],
        means=[r[2] for r in table["rows"]],
        files=files("out"),
    )


if __name__ == "__main__":
    main()
