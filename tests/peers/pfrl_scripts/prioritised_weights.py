"""Prioritised replay with weights and errors of the user's own, in a DQN with its own loss."""

import torch
from parts import Walk, dqn, pfrl, report, train


class OwnPrioritized(pfrl.replay_buffers.PrioritizedReplayBuffer):
    errors = samples = 0

    def sample(self, n):
        self.samples += 1
        experiences = super().sample(n)
        for each in experiences:
            each[0]["weight"] = min(each[0]["weight"], 0.5)
        return experiences

    def update_errors(self, errors):
        self.errors += len(errors)
        super().update_errors([min(float(error), 1.0) for error in errors])


class OwnDQN(pfrl.agents.DoubleDQN):
    losses, weights = 0, 0.0

    def _compute_loss(self, exp_batch, errors_out=None):
        self.losses += 1
        self.weights = max(self.weights, float(exp_batch["weights"].max()))
        y, t = self._compute_y_and_t(exp_batch) if hasattr(self, "_compute_y_and_t") else self.y_and_t(exp_batch)
        if errors_out is not None:
            del errors_out[:]
            errors_out.extend(torch.abs(y - t).detach().cpu().numpy().ravel())
        loss = pfrl.agents.dqn.compute_weighted_value_loss
        return loss(y, t, exp_batch["weights"], clip_delta=self.clip_delta, batch_accumulator=self.batch_accumulator)

    def y_and_t(self, exp_batch):
        y = self.model(exp_batch["state"]).evaluate_actions(exp_batch["action"])
        with torch.no_grad():
            return y, self._compute_target_values(exp_batch)


buffer = OwnPrioritized(200, alpha=0.6, beta0=0.4, betasteps=100, num_steps=2, normalize_by_max=True)
agent = dqn(
    OwnDQN,
    buffer,
    replay_start_size=40,
    minibatch_size=10,
    update_interval=3,
    target_update_interval=30,
    clip_delta=False,
    batch_accumulator="sum",
)
train(agent, Walk(), steps=150, eval_interval=75, eval_n_episodes=1, train_max_episode_len=8)
report(
    agent,
    "out",
    stored=len(buffer),
    updates=agent.optim_t,
    losses=agent.losses,
    samples=buffer.samples,
    errors=buffer.errors,
    clipped=agent.weights <= 0.5,
)
