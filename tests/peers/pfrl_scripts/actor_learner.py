"""DQN with actors in processes of their own and a learner with prioritised replay, as PFRL's --actor-learner."""

from parts import dqn, files, pfrl, report, train_async
from torch import multiprocessing as mp


def main():
    buffer = pfrl.replay_buffers.PrioritizedReplayBuffer(1000, alpha=0.6, betasteps=100)
    agent = dqn(pfrl.agents.DoubleDQN, buffer, minibatch_size=16, target_update_interval=20)
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
    train_async(
        processes=2,
        make_agent=make_actor,
        steps=10**6,
        eval_interval=10**6,
        stop_event=learner.stop_event,
        exception_event=exception_event,
    )
    poller.stop()
    learner.stop()
    poller.join()
    learner.join()
    agent.save("agent")
    report(
        agent,
        updates=agent.optim_t,
        hooks=hooked,
        stored=len(buffer) >= 32,
        agent_files=files("agent"),
        error=exception_event.is_set(),
    )


if __name__ == "__main__":
    main()
