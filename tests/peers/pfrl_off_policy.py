"""One update of replay agents whose PFRL methods are overridden: the same code for `pfrl` and for `pfrl_like`.

Run by a peer's interpreter, with `tests` on its path, `python tests/peers/pfrl_off_policy.py FILE` writes
the parameters after each case there.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from peers.overrides import filled, halved, library, minimise, own, parameters_of, plain, sgd, skipped
from torch import nn
from torch.distributions import Independent, Normal
from torch.nn import functional as F

N, OBS, ACTION, GAMMA = 12, 3, 2, 0.9
BUFFERS = ("uniform", "3-step", "prioritized")


class Steady(Normal):
    """Draws the same noise for every row, so that the order of rows does not matter."""

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.loc + 0.5 * self.scale

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.rsample().detach()


class Gaussian(nn.Module):
    def forward(self, x: Any) -> Any:
        return Independent(Steady(torch.tanh(x), 0.3 + 0.1 * torch.sigmoid(x)), 1)


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(OBS + ACTION, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, pair: Any) -> Any:
        return self.layers(torch.cat(pair, dim=-1))


def mlp(n_out: int, *head: Any) -> Any:
    return nn.Sequential(nn.Linear(OBS, 8), nn.Tanh(), nn.Linear(8, n_out), *head)


def filled_buffer(pfrl: Any, kind: str, discrete: bool) -> Any:
    buffers = pfrl.replay_buffers
    buffer = {
        "uniform": lambda: buffers.ReplayBuffer(100),
        "3-step": lambda: buffers.ReplayBuffer(100, num_steps=3),
        "prioritized": lambda: buffers.PrioritizedReplayBuffer(100),
        "episodic": lambda: buffers.EpisodicReplayBuffer(100),
    }[kind]()
    numbers = np.random.RandomState(0)
    obs = numbers.normal(size=(N + 1, OBS)).astype(np.float32)
    for i in range(N):
        action = np.int64(numbers.randint(ACTION)) if discrete else numbers.uniform(-1, 1, ACTION).astype(np.float32)
        end = i in (4, N - 1)
        states = {"recurrent_state": None, "next_recurrent_state": None} if kind == "episodic" else {}
        buffer.append(obs[i], action, float(i % 4) - 1.5, obs[i + 1], is_state_terminal=end, **states)
        if end:
            buffer.stop_current_episode()
    return buffer


def common(pfrl: Any, buffer: Any) -> dict[str, Any]:
    return {"replay_buffer": buffer, "gamma": GAMMA, "replay_start_size": len(buffer), "minibatch_size": len(buffer)}


def make_dqn(pfrl: Any, cls: Any, buffer: Any) -> Any:
    model = filled(mlp(ACTION, pfrl.q_functions.DiscreteActionValueHead()), 1)
    explorer = pfrl.explorers.Greedy()
    return cls(model, sgd(model), explorer=explorer, target_update_interval=10**6, **common(pfrl, buffer))


def make_recurrent_dqn(pfrl: Any, cls: Any, buffer: Any) -> Any:
    parts = nn.Linear(OBS, 8), nn.RNN(8, 8), nn.Linear(8, ACTION), pfrl.q_functions.DiscreteActionValueHead()
    model = filled(pfrl.nn.RecurrentSequential(*parts), 1)
    kept = {**common(pfrl, buffer), "minibatch_size": 2, "replay_start_size": 2}
    return cls(
        model, sgd(model), explorer=pfrl.explorers.Greedy(), target_update_interval=10**6, recurrent=True, **kept
    )  # fmt: skip


def make_ddpg(pfrl: Any, cls: Any, buffer: Any) -> Any:
    policy = filled(mlp(ACTION, nn.Tanh(), pfrl.policies.DeterministicHead()), 1)
    critic = filled(Critic(), 2)
    return cls(
        policy, critic, sgd(policy), sgd(critic), explorer=pfrl.explorers.Greedy(), target_update_interval=10**6,
        **common(pfrl, buffer),
    )  # fmt: skip


def with_two_critics(cls: Any, policy: Any, **options: Any) -> Any:
    critics = [filled(Critic(), seed) for seed in (2, 3)]
    return cls(policy, *critics, sgd(policy), *map(sgd, critics), **options)


def make_td3(pfrl: Any, cls: Any, buffer: Any) -> Any:
    policy = filled(mlp(ACTION, nn.Tanh(), pfrl.policies.DeterministicHead()), 1)
    smoothing = {"target_policy_smoothing_func": lambda action: action + 0.1}
    kept = {"explorer": pfrl.explorers.Greedy(), "policy_update_delay": 1, **smoothing, **common(pfrl, buffer)}
    return with_two_critics(cls, policy, **kept)


def make_delayed_td3(pfrl: Any, cls: Any, buffer: Any) -> Any:
    agent = make_td3(pfrl, cls, buffer)
    agent.policy_update_delay = 2
    return agent


def make_sac(pfrl: Any, cls: Any, buffer: Any) -> Any:
    policy = filled(mlp(ACTION, Gaussian()), 1)
    kept = {"entropy_target": -2.0, "temperature_optimizer_lr": 0.1, **common(pfrl, buffer)}
    return with_two_critics(cls, policy, **kept)


# Overrides, as users of PFRL write them


def twice(name: str) -> Callable[[Any], Any]:
    """A subclass whose method does everything twice."""

    def make(base: Any) -> Any:
        def method(self: Any, *args: Any) -> Any:
            getattr(base, name)(self, *args)
            return getattr(base, name)(self, *args)

        return type("Twice", (base,), {name: method})

    return make


def other_rewards(name: str) -> Callable[[Any], Any]:
    """A subclass, by a mix-in, that changes the rewards before its base learns from them."""

    def make(base: Any) -> Any:
        class Shaping:
            pass

        def method(self: Any, batch: Any, **kwargs: Any) -> Any:
            batch["reward"] = batch["reward"] + 0.3 * batch["state"][:, 0]
            return getattr(super(Shaping, self), name)(batch, **kwargs)

        setattr(Shaping, name, method)
        return type("Shaped", (Shaping, base), {})

    return make


@own("update_q_func")
def own_critic_steps(self, batch: Any) -> None:
    with torch.no_grad():
        action = self.target_policy(batch["next_state"]).sample()
        pair = batch["next_state"], action
        value = torch.max(self.target_q_func1(pair), self.target_q_func2(pair)).flatten()
        going = 1.0 - batch["is_state_terminal"]
        target = batch["reward"] + batch["discount"] * going * value
    for i in (1, 2):
        critic, optimizer = getattr(self, f"q_func{i}"), getattr(self, f"q_func{i}_optimizer")
        predicted = critic((batch["state"], batch["action"])).flatten()
        loss = F.smooth_l1_loss(predicted, target)
        getattr(self, f"q{i}_record").extend(predicted.detach().cpu().numpy())
        getattr(self, f"q_func{i}_loss_record").append(float(loss))
        minimise(optimizer, loss)
    self.q_func_n_updates += 1


@own("update_policy")
def own_policy_step(self, batch: Any) -> None:
    action = self.policy(batch["state"]).rsample()
    loss = -self.q_func1((batch["state"], action)).mean() + 0.2 * (action**2).mean()
    self.policy_loss_record.append(float(loss))
    minimise(self.policy_optimizer, loss)
    self.policy_n_updates += 1


@own("update_q_func")
def own_soft_critic_steps(self, batch: Any) -> None:
    with torch.no_grad():
        distribution = self.policy(batch["next_state"])
        action = distribution.sample()
        pair = batch["next_state"], action
        value = torch.min(self.target_q_func1(pair), self.target_q_func2(pair)).flatten()
        value = value - self.temperature * distribution.log_prob(action)
        going = 1.0 - batch["is_state_terminal"]
        target = batch["reward"] + batch["discount"] * going * value
    for i in (1, 2):
        critic, optimizer = getattr(self, f"q_func{i}"), getattr(self, f"q_func{i}_optimizer")
        loss = 0.25 * F.mse_loss(critic((batch["state"], batch["action"])).flatten(), target)
        minimise(optimizer, loss)


@own("update_policy_and_temperature")
def own_soft_policy_step(self, batch: Any) -> None:
    distribution = self.policy(batch["state"])
    action = distribution.rsample()
    log_prob = distribution.log_prob(action)
    q = torch.min(self.q_func1((batch["state"], action)), self.q_func2((batch["state"], action)))
    loss = (self.temperature * log_prob[..., None] - q).mean() + 0.1 * (action**2).mean()
    minimise(self.policy_optimizer, loss)
    self.n_policy_updates += 1
    if self.entropy_target is not None:
        self.update_temperature(log_prob.detach())
    self.entropy_record.extend(distribution.entropy().detach().cpu().numpy())


@own("update_temperature")
def own_temperature_step(self, log_prob: Any) -> None:
    loss = (self.temperature_holder() * (log_prob + 2 * self.entropy_target)).mean()
    minimise(self.temperature_optimizer, loss)


@own("compute_critic_loss")
def own_critic_loss(self, batch: Any) -> Any:
    with torch.no_grad():
        action = self.target_policy(batch["next_state"]).sample()
        value = self.target_q_function((batch["next_state"], action)).flatten()
        target = batch["reward"] + batch["discount"] * (1.0 - batch["is_state_terminal"]) * value
    loss = F.smooth_l1_loss(self.q_function((batch["state"], batch["action"])).flatten(), target)
    self.critic_loss_record.append(float(loss.detach().cpu().numpy()))
    return loss


@own("compute_actor_loss")
def own_actor_loss(self, batch: Any) -> Any:
    action = self.policy(batch["state"]).rsample()
    q = self.q_function((batch["state"], action))
    self.q_record.extend(q.detach().cpu().numpy())
    return -q.mean() + 0.2 * (action**2).mean()


@own("_compute_loss")
def own_loss(self, exp_batch: Any, errors_out: Any = None) -> Any:
    q = self.model(exp_batch["state"]).evaluate_actions(exp_batch["action"])
    with torch.no_grad():
        value = self.target_model(exp_batch["next_state"]).q_values.mean(dim=1)
        going = 1.0 - exp_batch["is_state_terminal"]
        target = exp_batch["reward"] + exp_batch["discount"] * going * value
    self.q_record.extend(q.detach().cpu().numpy().ravel())
    if errors_out is not None:
        errors_out[:] = (q - target).abs().detach().cpu().numpy().tolist()
    return F.mse_loss(q, target)


@own("_compute_target_values")
def own_targets(self, exp_batch: Any) -> Any:
    value = self.target_model(exp_batch["next_state"]).q_values.min(dim=1)[0]
    return exp_batch["reward"] + exp_batch["discount"] * (1.0 - exp_batch["is_state_terminal"]) * value


def own_recurrent_targets(base: Any) -> Any:
    forward = library(base).utils.recurrent.pack_and_forward

    class Own(base):  # type: ignore[misc]
        def _compute_target_values(self, exp_batch: Any) -> Any:
            state = exp_batch["next_recurrent_state"]
            value, _ = forward(self.target_model, exp_batch["next_state"], state)
            going = 1.0 - exp_batch["is_state_terminal"]
            return exp_batch["reward"] + exp_batch["discount"] * going * value.q_values.min(dim=1)[0]

    return Own


def clipped_rewards(base: Any) -> Any:
    class Clipped(base):  # type: ignore[misc]
        def update(self, experiences: Any, errors_out: Any = None) -> Any:
            for item in experiences:
                for step in item:
                    step["reward"] = float(np.clip(step["reward"], -0.5, 0.5))
            super().update(experiences, errors_out)

    return Clipped


def clipped_episodes(base: Any) -> Any:
    class Clipped(base):  # type: ignore[misc]
        def update_from_episodes(self, episodes: Any, errors_out: Any = None) -> Any:
            episodes = [[{**step, "reward": min(step["reward"], 0.5)} for step in episode] for episode in episodes]
            super().update_from_episodes(episodes, errors_out)

    return Clipped


MAKE = {
    "DQN": make_dqn,
    "DoubleDQN": make_dqn,
    "RecurrentDQN": make_recurrent_dqn,
    "DDPG": make_ddpg,
    "TD3": make_td3,
    "DelayedTD3": make_delayed_td3,
    "SoftActorCritic": make_sac,
}
OVERRIDES: dict[str, dict[str, Callable[[Any], Any]]] = {
    "DQN": {
        "none": plain,
        "halved loss": halved("_compute_loss"),
        "own loss": own_loss,
        "halved targets": halved("_compute_target_values"),
        "own targets": own_targets,
        "clipped rewards": clipped_rewards,
    },
    "DoubleDQN": {"halved targets": halved("_compute_target_values"), "other rewards": other_rewards("_compute_loss")},
    "RecurrentDQN": {
        "none": plain,
        "clipped episodes": clipped_episodes,
        "own targets": own_recurrent_targets,
        "halved loss": halved("_compute_loss"),
    },
    "DDPG": {
        "none": plain,
        "halved critic loss": halved("compute_critic_loss"),
        "own critic loss": own_critic_loss,
        "halved actor loss": halved("compute_actor_loss"),
        "own actor loss": own_actor_loss,
        "other rewards": other_rewards("compute_critic_loss"),
        "clipped rewards": clipped_rewards,
    },
    "TD3": {
        "none": plain,
        "critics twice": twice("update_q_func"),
        "own critic steps": own_critic_steps,
        "policy twice": twice("update_policy"),
        "own policy step": own_policy_step,
        "no policy step": skipped("update_policy"),
        "other rewards": other_rewards("update_q_func"),
        "clipped rewards": clipped_rewards,
    },
    "DelayedTD3": {"critics twice": twice("update_q_func"), "no critic step": skipped("update_q_func")},
    "SoftActorCritic": {
        "none": plain,
        "critics twice": twice("update_q_func"),
        "own critic steps": own_soft_critic_steps,
        "policy twice": twice("update_policy_and_temperature"),
        "own policy step": own_soft_policy_step,
        "temperature twice": twice("update_temperature"),
        "own temperature step": own_temperature_step,
        "no policy step": skipped("update_policy_and_temperature"),
        "other rewards": other_rewards("update_q_func"),
        "clipped rewards": clipped_rewards,
    },
}
#: PFRL's own loss of DDPG has gamma where that of n steps is due.
DEPARTURES = {("DDPG", name, "3-step") for name in OVERRIDES["DDPG"] if name != "own critic loss"}
CASES = [
    (agent, name, buffer)
    for agent, overrides in OVERRIDES.items()
    for name in overrides
    for buffer in (("episodic",) if agent == "RecurrentDQN" else BUFFERS)
    if (agent, name, buffer) not in DEPARTURES
]


def updated(agent: Any) -> None:
    agent.update_from_replay()


def parameters_after(
    pfrl: Any, agent_name: str, override: str, kind: str, update: Callable[[Any], None] = updated
) -> Any:
    """All parameters of an agent after one update, one after the other, [n]."""
    cls_name = {"RecurrentDQN": "DQN", "DelayedTD3": "TD3"}.get(agent_name, agent_name)
    cls = OVERRIDES[agent_name][override](getattr(pfrl.agents, cls_name))
    buffer = filled_buffer(pfrl, kind, discrete=cls_name.endswith("DQN"))
    agent = MAKE[agent_name](pfrl, cls, buffer)
    update(agent)
    learnt = "model", "policy", "q_func1", "q_func2", "temperature_holder"
    return parameters_of(agent, *learnt, "target_policy", "target_q_func1", "target_q_func2")


def main(path: str) -> None:
    import pfrl

    def update(agent: Any) -> None:
        agent.replay_updater.update_if_necessary(agent.replay_updater.update_interval)

    np.random.seed(0)
    found = {"/".join(case): parameters_after(pfrl, *case, update) for case in CASES}
    np.savez_compressed(path, **found)


if __name__ == "__main__":
    main(sys.argv[1])
