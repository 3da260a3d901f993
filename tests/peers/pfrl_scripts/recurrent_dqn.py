"""DRQN on one and on several environments, with an episodic buffer; the user counts the updates from episodes."""

from parts import Walk, dqn, pfrl, report, train
from torch import nn


class Counting(pfrl.agents.DoubleDQN):
    updates, lengths = 0, ()

    def update_from_episodes(self, episodes, errors_out=None):
        self.updates += 1
        self.lengths = sorted({*self.lengths, *map(len, episodes)})
        return super().update_from_episodes(episodes, errors_out=errors_out)


def make():
    q_func = pfrl.nn.RecurrentSequential(
        nn.Linear(4, 8),
        nn.ReLU(),
        nn.LSTM(input_size=8, hidden_size=8),
        nn.Linear(8, 3),
        pfrl.q_functions.DiscreteActionValueHead(),
    )
    return dqn(
        Counting,
        pfrl.replay_buffers.EpisodicReplayBuffer(500),
        q_func=q_func,
        replay_start_size=40,
        minibatch_size=3,
        update_interval=5,
        target_update_interval=20,
        episodic_update_len=4,
        recurrent=True,
    )


agent = make()
train(agent, Walk(9), steps=120, eval_interval=60, outdir="one", train_max_episode_len=7)
batch, envs = make(), [Walk(6), Walk(11)]
pfrl.experiments.train_agent_batch(batch, pfrl.envs.SerialVectorEnv(envs), steps=120, outdir="batch")
obs = Walk(3).reset()
with batch.eval_mode():
    batch.act(obs)
    inside = batch.test_recurrent_states is not None
    batch.observe(obs, 0.0, True, False)
    batch.stop_episode() if hasattr(batch, "stop_episode") else None
report(
    agent,
    "one",
    stored=[len(agent.replay_buffer), len(batch.replay_buffer)],
    updates=[agent.updates, batch.updates],
    episodes=[agent.replay_buffer.n_episodes, batch.replay_buffer.n_episodes],
    optim=[agent.optim_t, batch.optim_t],
    lengths=[agent.lengths, batch.lengths],
    inside=inside,
    reset=batch.test_recurrent_states is None,
)
