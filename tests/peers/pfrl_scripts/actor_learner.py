"""DQN with actors in processes of their own and a learner with prioritised replay, as PFRL's --actor-learner."""

import sys
from importlib import import_module
from pathlib import Path

import torch
from parts import Walk, files, keys, q_network, report
from torch import multiprocessing as mp

pfrl = import_module(sys.argv[1])


def main():
    Path("out").mkdir()

    def make_env(process_idx, test):
        return Walk(5 if test else 8)

    q_func = q_network()
    buffer = pfrl.replay_buffers.PrioritizedReplayBuffer(1000, alpha=0.6, betasteps=100)
    agent = pfrl.agents.DoubleDQN(
        q_func,
        torch.optim.Adam(q_func.parameters()),
        buffer,
        0.9,
        pfrl.explorers.ConstantEpsilonGreedy(0.2, Walk.action_space.sample),
        replay_start_size=32,
        minibatch_size=16,
        target_update_interval=20,
    )
    hooked = []
    make_actor, learner, poller, exception_event = agent.setup_actor_learner_training(
        n_actors=2,
        n_updates=60,
        actor_update_interval=8,
        update_counter=mp.Value("L"),
        step_hooks=[lambda env, agent, step: hooked.append(step)],
    )
    poller.start()
    learner.start()
    pfrl.experiments.train_agent_async(
        processes=2,
        random_seeds=[0, 1],
        make_env=make_env,
        make_agent=make_actor,
        steps=10**6,
        eval_n_steps=None,
        eval_n_episodes=2,
        eval_interval=10**6,
        outdir="out",
        stop_event=learner.stop_event,
        exception_event=exception_event,
    )
    poller.stop()
    learner.stop()
    poller.join()
    learner.join()
    agent.save("agent")
    report(
        updates=agent.optim_t,
        hooks=hooked,
        stored=len(buffer) >= 32,
        agent_files=files("agent"),
        keys=keys(agent.get_statistics()),
        error=exception_event.is_set(),
    )


if __name__ == "__main__":
    main()
