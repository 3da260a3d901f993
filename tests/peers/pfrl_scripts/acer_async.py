"""ACER in two processes with an episodic buffer of its own each."""

import torch
from parts import categorical_policy, files, pfrl, q_network, report, scores, train_async


def main():
    model = pfrl.agents.acer.ACERDiscreteActionHead(pi=categorical_policy(), q=q_network())
    opt = pfrl.optimizers.SharedRMSpropEpsInsideSqrt(model.parameters(), lr=1e-3, eps=4e-3, alpha=0.99)
    agent = pfrl.agents.ACER(
        model,
        opt,
        t_max=7,
        gamma=0.99,
        replay_buffer=pfrl.replay_buffers.EpisodicReplayBuffer(500),
        n_times_replay=2,
        replay_start_size=30,
        beta=1e-2,
        trust_region_alpha=0.99,
        max_grad_norm=40,
        phi=lambda x: x,
        disable_online_update=False,
        use_Q_opc=False,
    )
    counter = torch.zeros(1, dtype=torch.int64).share_memory_()
    hooks = [lambda env, agent, step: counter.add_(1)]
    options = dict(eval_interval=80, global_step_hooks=hooks, save_best_so_far_agent=True)
    train_async(agent=agent, processes=2, steps=240, **options)
    table = scores("out")
    report(
        agent,
        hooks=int(counter) in (240, 241),
        columns=table["columns"],
        means=[row[2] for row in table["rows"]],
        rows=len(table["rows"]),
        best_files=[name for name in files("out") if name.startswith("best/")],
    )


if __name__ == "__main__":
    main()
