"""PPO with a loss of its own, and a normalizer of observations."""

import sys
from importlib import import_module

import torch
from parts import Arm, files, gaussian_policy, keys, report, scores
from torch import nn

pfrl = import_module(sys.argv[1])


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
model = pfrl.nn.Branched(gaussian_policy(), nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)))
normalizer = pfrl.nn.EmpiricalNormalization(4, clip_threshold=5)
agent = OwnPPO(
    model,
    torch.optim.Adam(model.parameters(), lr=3e-4),
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
pfrl.experiments.train_agent_with_evaluation(
    agent,
    env,
    steps=300,
    eval_n_steps=None,
    eval_n_episodes=1,
    eval_interval=100,
    outdir="out",
    train_max_episode_len=7,
    step_hooks=[lambda env, agent, step: seen.append(sum(len(e) for e in agent.memory))],
)
report(
    updates=agent.n_updates,
    loss_calls=agent.loss_calls,
    shapes=sorted(agent.shapes),
    left=len(agent.memory),
    normalized=int(normalizer.count),
    env=[env.n_steps, env.n_resets],
    hooks=len(seen),
    scores=scores("out"),
    files=files("out"),
    keys=keys(agent.get_statistics()),
)
