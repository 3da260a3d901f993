"""PPO with a loss of its own, and a normalizer of observations."""

from parts import Arm, actor_critic, adam, counts, gaussian_policy, pfrl, report, train


class OwnPPO(pfrl.agents.PPO):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.loss_calls, self.shapes = 0, set()

    def _lossfun(self, entropy, vs_pred, log_probs, vs_pred_old, log_probs_old, advs, vs_teacher):
        self.loss_calls += 1
        self.shapes.add((len(entropy), tuple(vs_pred.shape), tuple(advs.shape), tuple(vs_teacher.shape)))
        loss = super()._lossfun(entropy, vs_pred, log_probs, vs_pred_old, log_probs_old, advs, vs_teacher)
        return loss + 0.1 * (log_probs - log_probs_old).pow(2).mean()


env = Arm()
model = actor_critic(gaussian_policy())
normalizer = pfrl.nn.EmpiricalNormalization(4, clip_threshold=5)
agent = OwnPPO(
    model,
    adam(model, lr=3e-4),
    obs_normalizer=normalizer,
    gpu=None,
    update_interval=64,
    minibatch_size=16,
    epochs=3,
    clip_eps_vf=None,
    entropy_coef=0.01,
    standardize_advantages=True,
    gamma=0.99,
)
seen = []
hooks = [lambda env, agent, step: seen.append(sum(len(e) for e in agent.memory))]
train(agent, env, steps=300, eval_interval=100, eval_n_episodes=1, train_max_episode_len=7, step_hooks=hooks)
report(
    agent,
    "out",
    updates=agent.n_updates,
    loss_calls=agent.loss_calls,
    shapes=sorted(agent.shapes),
    left=len(agent.memory),
    normalized=int(normalizer.count),
    env=counts(env),
    hooks=len(seen),
)
