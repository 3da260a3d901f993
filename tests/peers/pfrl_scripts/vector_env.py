"""A vector environment of the user's own, and MultiprocessVectorEnv with a frame stack, for DQN on several actors."""

import functools

import numpy as np
from parts import Walk, dqn, files, pfrl, q_network, report, train


class OwnVectorEnv(pfrl.env.VectorEnv):
    def __init__(self, lengths):
        self.envs = [Walk(length) for length in lengths]
        self.last = [None] * len(lengths)
        self.masks, self.n_steps = [], 0

    num_envs = property(lambda self: len(self.envs))
    action_space = Walk.action_space
    observation_space = Walk.observation_space

    def reset(self, mask=None):
        mask = np.zeros(self.num_envs) if mask is None else mask
        self.masks.append([bool(each) for each in mask])
        self.last = [old if m else env.reset() for old, env, m in zip(self.last, self.envs, mask, strict=False)]
        return tuple(self.last)

    def step(self, actions):
        self.n_steps += 1
        steps = [env.step(action) for env, action in zip(self.envs, actions, strict=True)]
        self.last, rewards, dones, infos = zip(*steps, strict=True)
        return self.last, rewards, dones, infos

    def seed(self, seeds):
        pass

    def close(self):
        pass


def flat(obs):
    return np.asarray(obs, np.float32).reshape(-1)


if __name__ == "__main__":
    own, agent = OwnVectorEnv([5, 7, 9]), dqn(phi=flat)
    options = dict(outdir="own", eval_env=OwnVectorEnv([4, 4, 4]), max_episode_len=8)
    train(agent, own, steps=90, eval_interval=45, eval_n_episodes=3, **options)
    stacked = dqn(q_func=q_network(n_obs=8), phi=flat)
    env = pfrl.envs.MultiprocessVectorEnv([functools.partial(Walk, length) for length in (5, 7)])
    env = pfrl.wrappers.VectorFrameStack(env, 2, stack_axis=0)
    pfrl.experiments.train_agent_batch(stacked, env, steps=60, outdir="stacked")
    env.close()
    report(
        agent,
        "own",
        stored=[len(agent.replay_buffer), len(stacked.replay_buffer)],
        updates=[agent.optim_t, stacked.optim_t],
        masks=own.masks,
        steps=own.n_steps,
        shape=list(env.observation_space.shape),
        t=[agent.t, stacked.t],
        files=[files("own"), files("stacked")],
    )
