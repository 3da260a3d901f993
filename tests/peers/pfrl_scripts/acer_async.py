"""ACER in two processes with an episodic buffer of its own each."""

import sys
from importlib import import_module
from pathlib import Path

import torch
from parts import Walk, files, keys, q_network, report, scores
from torch import nn

pfrl = import_module(sys.argv[1])


def main():
    Path("out").mkdir()

    def make_env(process_idx, test):
        return Walk(5 if test else 8)

    model = pfrl.agents.acer.ACERDiscreteActionHead(
        pi=nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3), pfrl.policies.SoftmaxCategoricalHead()),
        q=q_network(),
    )
    opt = pfrl.optimizers.SharedRMSpropEpsInsideSqrt(model.parameters(), lr=1e-3, eps=4e-3, alpha=0.99)
    buffer = pfrl.replay_buffers.EpisodicReplayBuffer(500)
    agent = pfrl.agents.ACER(
        model,
        opt,
        t_max=7,
        gamma=0.99,
        replay_buffer=buffer,
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
    pfrl.experiments.train_agent_async(
        agent=agent,
        outdir="out",
        processes=2,
        random_seeds=[0, 1],
        make_env=make_env,
        steps=240,
        eval_n_steps=None,
        eval_n_episodes=2,
        eval_interval=80,
        global_step_hooks=[lambda env, agent, step: counter.add_(1)],
        save_best_so_far_agent=True,
    )
    table = scores("out")
    report(
        hooks=int(counter) in (240, 241),
        columns=table["columns"],
        means=[row[2] for row in table["rows"]],
        rows=len(table["rows"]),
        best_files=[name for name in files("out") if name.startswith("best/")],
        keys=keys(agent.get_statistics()),
    )


if __name__ == "__main__":
    main()
