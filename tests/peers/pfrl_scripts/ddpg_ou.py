"""DDPG with Ornstein-Uhlenbeck noise, soft target updates and a save in the middle."""

from parts import Arm, adam, critic, files, pfrl, report, train
from torch import nn


class OwnDDPG(pfrl.agents.DDPG):
    calls = [0, 0]

    def compute_critic_loss(self, batch):
        self.calls[0] += 1
        return 2 * super().compute_critic_loss(batch)

    def compute_actor_loss(self, batch):
        self.calls[1] += 1
        return super().compute_actor_loss(batch)


env = Arm()
bound = pfrl.nn.BoundByTanh(low=env.action_space.low, high=env.action_space.high)
policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2), bound, pfrl.policies.DeterministicHead())
q_func = critic()
sigma = (env.action_space.high - env.action_space.low) * 0.2
agent = OwnDDPG(
    policy,
    q_func,
    adam(policy, lr=1e-4),
    adam(q_func, lr=1e-3),
    pfrl.replay_buffers.ReplayBuffer(1000),
    gamma=0.995,
    explorer=pfrl.explorers.AdditiveOU(sigma=sigma),
    replay_start_size=40,
    target_update_method="soft",
    target_update_interval=1,
    update_interval=3,
    soft_update_tau=5e-3,
    n_times_update=2,
    gpu=-1,
    minibatch_size=20,
)


def save(env, agent, step):
    if step == 50:
        agent.save("middle")


train(agent, env, steps=100, eval_interval=50, step_hooks=[save])
actions = [item["action"] for each in agent.replay_buffer.sample(20) for item in each]
report(
    agent,
    "out",
    stored=len(agent.replay_buffer),
    updates=agent.n_updates,
    calls=agent.calls,
    t=agent.t,
    shapes=sorted({tuple(action.shape) for action in actions}),
    types=sorted({str(action.dtype) for action in actions}),
    files=[files("out"), files("middle")],
)
