"""An update of on-policy and asynchronous agents whose PFRL methods are overridden: one code for `pfrl`, `pfrl_like`.

Run by a peer's interpreter, with `tests` on its path, `python tests/peers/pfrl_on_policy.py FILE` writes
the parameters after each case there.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from peers.overrides import filled, halved, library, minimise, own, parameters_of, plain, sgd, skipped
from torch import nn
from torch.nn import functional as F

OBS, ACTION, GAMMA = 3, 2, 0.9

#: The actions that every policy takes next, [k]: what is compared is the update, not the draw.
TAKEN: list[Any] = [np.zeros(1, np.int64)]


class Fixed(nn.Module):
    """A head of policies whose distributions take the actions that are due."""

    def __init__(self, head: Any) -> None:
        super().__init__()
        self.head = head

    def forward(self, x: Any) -> Any:
        distribution = self.head(x)

        def sample(sample_shape: Any = ()) -> Any:
            action = torch.as_tensor(TAKEN[0])
            action = action if len(action) == len(x) else action[:1].expand(len(x), *action.shape[1:])
            return action.expand(*sample_shape, *action.shape).clone()

        distribution.sample = sample
        return distribution


def softmax(lib: Any) -> Any:
    return Fixed(lib.policies.SoftmaxCategoricalHead())


class Advantage(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(OBS + ACTION, 1)

    def forward(self, pair: Any) -> Any:
        return torch.tanh(self.layer(torch.cat(pair, dim=-1)))


def mlp(n_out: int, *head: Any) -> Any:
    return nn.Sequential(nn.Linear(OBS, 6), nn.Tanh(), nn.Linear(6, n_out), *head)


def policy_and_value(lib: Any, recurrent: bool) -> Any:
    if recurrent:
        policy = lib.nn.RecurrentSequential(nn.RNN(OBS, 6), nn.Linear(6, ACTION), softmax(lib))
        return filled(lib.nn.RecurrentBranched(policy, lib.nn.RecurrentSequential(nn.GRU(OBS, 6), nn.Linear(6, 1))))
    return filled(lib.nn.Branched(mlp(ACTION, softmax(lib)), mlp(1)))


def make_ppo(lib: Any, cls: Any, recurrent: bool = False, **options: Any) -> Any:
    model = policy_and_value(lib, recurrent)
    kept = {"gamma": GAMMA, "update_interval": 8, "minibatch_size": 8, "epochs": 2, "recurrent": recurrent, **options}
    return cls(model, sgd(model), **kept)


def make_a2c(lib: Any, cls: Any, **options: Any) -> Any:
    model = policy_and_value(lib, recurrent=False)
    return cls(model, sgd(model), gamma=GAMMA, num_processes=2, update_steps=4, **options)


def make_reinforce(lib: Any, cls: Any, **options: Any) -> Any:
    model = filled(mlp(ACTION, softmax(lib)))
    return cls(model, sgd(model), **{"batchsize": 2, "beta": 0.1, **options})


def shared(agent: Any) -> Any:
    agent.shared_model.share_memory()
    return agent


def make_a3c(lib: Any, cls: Any, recurrent: bool = False, **options: Any) -> Any:
    model = policy_and_value(lib, recurrent)
    return shared(cls(model, sgd(model), t_max=4, gamma=GAMMA, recurrent=recurrent, beta=0.1, **options))


def make_acer(lib: Any, cls: Any, continuous: bool = False, replay: bool = False, **options: Any) -> Any:
    acer = lib.agents.acer
    if continuous:
        policy = mlp(2 * ACTION, Fixed(lib.policies.GaussianHeadWithDiagonalCovariance()))
        model = acer.ACERContinuousActionHead(policy, mlp(1), Advantage(), n=2)
    else:
        q_function = mlp(ACTION, lib.q_functions.DiscreteActionValueHead())
        model = acer.ACERDiscreteActionHead(mlp(ACTION, softmax(lib)), q_function)
    buffer = lib.replay_buffers.EpisodicReplayBuffer(100) if replay else None
    kept = {"t_max": 4, "gamma": GAMMA, "beta": 0.1, "replay_start_size": 4, "n_times_replay": 1, **options}
    return shared(cls(filled(model), sgd(model), replay_buffer=buffer, trust_region_delta=0.05, **kept))


# Overrides, as users of PFRL write them


def stepped_twice(name: str) -> Callable[[Any], Any]:
    """A subclass, by a mix-in, whose optimiser goes on along the gradient of the update."""

    def make(base: Any) -> Any:
        class Further:
            pass

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            getattr(super(Further, self), name)(*args, **kwargs)
            self.optimizer.step()

        setattr(Further, name, method)
        return type("SteppedTwice", (Further, base), {})

    return make


def value_penalty(base: Any) -> Any:
    class Own(base):  # type: ignore[misc]
        def _lossfun(
            self, entropy: Any, vs_pred: Any, log_probs: Any, vs_pred_old: Any, log_probs_old: Any, advs: Any,
            vs_teacher: Any,
        ) -> Any:  # fmt: skip
            loss = super()._lossfun(entropy, vs_pred, log_probs, vs_pred_old, log_probs_old, advs, vs_teacher)
            return loss + 0.1 * (vs_pred**2).mean() - 0.2 * entropy.max()

    return Own


@own("_lossfun")
def unclipped_loss(
    self, entropy: Any, vs_pred: Any, log_probs: Any, vs_pred_old: Any, log_probs_old: Any, advs: Any,
    vs_teacher: Any,
) -> Any:  # fmt: skip
    assert vs_pred.shape == vs_pred_old.shape == vs_teacher.shape == (len(advs), 1)
    gain = torch.exp(log_probs - log_probs_old) * advs
    value_loss = F.smooth_l1_loss(vs_pred, vs_teacher) + 0.05 * F.mse_loss(vs_pred, vs_pred_old)
    self.value_loss_record.append(value_loss.item())
    self.policy_loss_record.append(-gain.mean().item())
    return -gain.mean() + self.value_func_coef * value_loss - self.entropy_coef * entropy.mean()


def a2c_shaped(base: Any) -> Any:
    class Shaped(base):  # type: ignore[misc]
        def update(self) -> None:
            self.rewards += 0.3 * self.states[1:, :, 0]
            super().update()

    return Shaped


@own("update")
def a2c_huber(self) -> None:
    with torch.no_grad():
        next_value = self.model(self.states[-1])[1].flatten()
    self._compute_returns(next_value)
    distribution, value = self.model(self.states[:-1].reshape(-1, *self.obs_shape))
    log_prob = distribution.log_prob(self.actions.reshape(-1, *self.action_shape))
    shape = self.update_steps, self.num_processes
    value, log_prob = value.reshape(shape), log_prob.reshape(shape)
    advantage = (self.returns[:-1] - value).detach()
    loss = self.v_loss_coef * F.smooth_l1_loss(value, self.returns[:-1])
    loss = loss - self.pi_loss_coef * (advantage * log_prob).mean()
    minimise(self.optimizer, loss - self.entropy_coeff * distribution.entropy().mean())
    self.states[0] = self.states[-1]
    self.t_start = self.t
    self.average_value += (1 - self.average_value_decay) * (value.mean().item() - self.average_value)


def a2c_returns(base: Any) -> Any:
    class Scaled(base):  # type: ignore[misc]
        def _compute_returns(self, next_value: Any) -> None:
            super()._compute_returns(0.5 * next_value)
            self.returns[:-1] *= 0.7

    return Scaled


def scaled_rewards(base: Any) -> Any:
    """Of REINFORCE; the first number of each sequence is another one in PFRL, and counts nowhere."""

    class Scaled(base):  # type: ignore[misc]
        def accumulate_grad(self) -> None:
            self.reward_sequences = [[0.3 * reward for reward in rewards] for rewards in self.reward_sequences]
            super().accumulate_grad()

    return Scaled


@own("accumulate_grad")
def with_baseline(self) -> None:
    if self.n_backward == 0:
        self.optimizer.zero_grad()
    losses = []
    for rewards, log_probs, entropies in zip(
        self.reward_sequences, self.log_prob_sequences, self.entropy_sequences, strict=True
    ):
        assert len(rewards) - 1 == len(log_probs) == len(entropies)
        returns = np.cumsum([*reversed(rewards[1:])])[::-1]
        for value, log_prob, entropy in zip(returns, log_probs, entropies, strict=True):
            losses.append((returns.mean() - value) * log_prob - self.beta * entropy)
    (torch.stack(losses).sum() / self.batchsize).backward()
    self.reward_sequences, self.log_prob_sequences, self.entropy_sequences = [[]], [[]], [[]]
    self.n_backward += 1


@own("batch_update")
def own_batch_update(self) -> None:
    assert len(self.reward_sequences) == self.batchsize and self.n_backward == 0
    self.accumulate_grad()
    for param in self.model.parameters():
        param.grad = param.grad.sign()
    self.optimizer.step()
    self.n_backward = 0


def own_accumulated_update(base: Any) -> Any:
    class Own(base):  # type: ignore[misc]
        def update_with_accumulated_grad(self) -> None:
            assert self.n_backward == self.batchsize
            nn.utils.clip_grad_value_(self.model.parameters(), 0.05)
            super().update_with_accumulated_grad()

    return Own


def a3c_clipped_rewards(base: Any) -> Any:
    class Clipped(base):  # type: ignore[misc]
        def update(self, statevar: Any) -> None:
            for time in range(self.t_start, self.t):
                self.past_rewards[time] = max(self.past_rewards[time], 0.0)
            super().update(statevar)

    return Clipped


def moved(base: Any, agent: Any, loss: Any) -> None:
    """What PFRL does with a loss of the model of a process."""
    agent.model.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(agent.model.parameters(), 0.5)
    library(base).utils.copy_param.copy_grad(target_link=agent.shared_model, source_link=agent.model)
    agent.optimizer.step()
    agent.sync_parameters()


def a3c_huber(base: Any) -> Any:
    class Huber(base):  # type: ignore[misc]
        def update(self, statevar: Any) -> None:
            assert self.t_start < self.t
            self.assert_shared_memory()
            times = range(self.t_start, self.t)
            obs = self.batch_states([self.past_obs[time] for time in times], self.device, self.phi)
            R = 0.0
            if self.recurrent:
                recurrent = library(base).utils.recurrent
                if statevar is not None:
                    with torch.no_grad():
                        (_, value), _ = recurrent.one_step_forward(self.model, statevar, self.train_recurrent_states)
                    R = float(value)
                state = self.past_recurrent_state[self.t_start]
                (distribution, value), _ = recurrent.pack_and_forward(self.model, [obs], state)
            else:
                if statevar is not None:
                    with torch.no_grad():
                        R = float(self.model(statevar)[1])
                distribution, value = self.model(obs)
            returns = []
            for time in reversed(times):
                R = self.past_rewards[time] + self.gamma * R
                returns.append(R)
            target = torch.tensor(returns[::-1]).float()
            log_prob = distribution.log_prob(torch.stack([self.past_action[time] for time in times]))
            loss = F.smooth_l1_loss(value.flatten(), target, reduction="sum")
            loss = loss - ((target - value.detach().flatten()) * log_prob + self.beta * distribution.entropy()).sum()
            moved(base, self, loss)
            self.past_obs, self.past_action, self.past_rewards, self.past_recurrent_state = {}, {}, {}, {}
            self.t_start = self.t

    return Huber


def acer_on_policy(base: Any) -> Any:
    class Own(base):  # type: ignore[misc]
        def update_on_policy(self, statevar: Any) -> None:
            R = 0.5
            if statevar is not None:
                with torch.no_grad():
                    R += float(self.model(statevar)[2])
            self.update(
                t_start=self.t_start, t_stop=self.t, R=R, actions=self.past_actions,
                rewards={time: 0.5 * reward for time, reward in self.past_rewards.items()}, values=self.past_values,
                action_values=self.past_action_values, action_distribs=self.past_action_distrib,
                action_distribs_mu=None, avg_action_distribs=self.past_avg_action_distrib,
            )  # fmt: skip
            self.init_history_data_for_online_update()
            recurrent = library(base).utils.recurrent
            self.train_recurrent_states = recurrent.detach_recurrent_state(self.train_recurrent_states)

    return Own


def acer_update(base: Any) -> Any:
    class Own(base):  # type: ignore[misc]
        def update(self, t_start: Any, t_stop: Any, R: Any, values: Any, **steps: Any) -> None:
            assert np.isscalar(R)
            self.assert_shared_memory()
            loss = self.compute_loss(t_start=t_start, t_stop=t_stop, R=R, values=values, **steps)
            entropy = sum(steps["action_distribs"][time].entropy() for time in range(t_start, t_stop))
            moved(base, self, (loss - 0.3 * entropy).squeeze())

    return Own


@own("compute_loss")
def acer_loss(
    self, t_start: Any, t_stop: Any, R: Any, actions: Any, rewards: Any, values: Any, action_values: Any,
    action_distribs: Any, action_distribs_mu: Any, avg_action_distribs: Any,
) -> Any:  # fmt: skip
    loss: Any = 0.0
    for time in reversed(range(t_start, t_stop)):
        R = rewards[time] + self.gamma * R
        action = torch.as_tensor(actions[time]).unsqueeze(0)
        policy_loss = self.compute_one_step_pi_loss(
            action=action, advantage=R - float(values[time]), action_distrib=action_distribs[time],
            action_distrib_mu=action_distribs_mu[time] if action_distribs_mu else None,
            action_value=action_values[time], v=float(values[time]),
            avg_action_distrib=avg_action_distribs[time],
        )  # fmt: skip
        q = action_values[time].evaluate_actions(action)
        loss = loss + self.pi_loss_coef * policy_loss + F.smooth_l1_loss(q, torch.tensor(R).expand_as(q))
    return loss / (t_stop - t_start)


MAKE: dict[str, Callable[..., Any]] = {
    "PPO": make_ppo,
    "A2C": make_a2c,
    "REINFORCE": make_reinforce,
    "A3C": make_a3c,
    "ACER": make_acer,
}
#: Overrides of each agent, and the options with which each is compared.
OVERRIDES: dict[str, dict[str, Callable[[Any], Any]]] = {
    "PPO": {"none": plain, "halved": halved("_lossfun"), "penalty": value_penalty, "own": unclipped_loss},
    "A2C": {
        "none": plain,
        "shaped": a2c_shaped,
        "stepped twice": stepped_twice("update"),
        "own": a2c_huber,
        "returns": a2c_returns,
        "skipped": skipped("update"),
    },
    "REINFORCE": {
        "none": plain,
        "scaled rewards": scaled_rewards,
        "baseline": with_baseline,
        "own batch update": own_batch_update,
        "stepped twice": stepped_twice("batch_update"),
    },
    "REINFORCE separately": {
        "none": plain,
        "baseline": with_baseline,
        "own update": own_accumulated_update,
        "stepped twice": stepped_twice("update_with_accumulated_grad"),
        "skipped": skipped("update_with_accumulated_grad"),
    },
    "A3C": {
        "none": plain,
        "clipped rewards": a3c_clipped_rewards,
        "stepped twice": stepped_twice("update"),
        "own": a3c_huber,
        "skipped": skipped("update"),
    },
    "ACER": {
        "none": plain,
        "own on policy": acer_on_policy,
        "on policy skipped": skipped("update_on_policy"),
        "own update": acer_update,
        "stepped twice": stepped_twice("update"),
        "own loss": acer_loss,
        "halved loss": halved("compute_loss"),
        "halved policy loss": halved("compute_one_step_pi_loss"),
    },
}
REPLAY = {"replay": True, "disable_online_update": True}
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "PPO": {"": {}, "clipped values": {"clip_eps_vf": 0.1, "max_grad_norm": 2.0}, "recurrent": {"recurrent": True}},
    "A2C": {"": {}, "gae": {"use_gae": True, "tau": 0.8}},
    "REINFORCE": {"": {}},
    "REINFORCE separately": {"": {"backward_separately": True, "max_grad_norm": 0.5}},
    "A3C": {"": {}, "terminal": {}, "recurrent": {"recurrent": True}},
    "ACER": {"": {}, "replay": REPLAY, "continuous": {"continuous": True, **REPLAY, "use_trust_region": False}},
}
CASES = [
    (agent, override, options)
    for agent, overrides in OVERRIDES.items()
    for options in OPTIONS[agent]
    for override in overrides
    if (override, options) not in (("on policy skipped", "replay"), ("on policy skipped", "continuous"))
]


def drive(agent: Any, name: str, continuous: bool, terminal: bool) -> None:
    """Steps of two environments, or of one, up to the first update."""
    numbers = np.random.RandomState(0)
    k, n_steps = (2, 4) if name in ("PPO", "A2C") else (1, 4)
    rows = numbers.normal(size=(20, k, OBS)).astype(np.float32)
    rewards = np.round(numbers.normal(size=(20, k)), 2)
    if name.startswith("REINFORCE"):  # whose returns are PFRL's where all rewards of an episode are equal
        n_steps, rewards = 7, np.where(np.arange(20) < 3, 1.0, -0.5).reshape(20, 1)
    for step in range(n_steps):
        actions = numbers.randint(ACTION, size=k)
        TAKEN[0] = numbers.normal(size=(k, ACTION)).astype(np.float32) if continuous else actions
        last = step == n_steps - 1
        done = [(step == 1 and i == 0 and k == 2) or (terminal and last) for i in range(k)]
        if name.startswith("REINFORCE"):
            done = [step in (2, 6)]
        if k == 2:
            agent.batch_act([*rows[step]])
            agent.batch_observe([*rows[step + 1]], [*rewards[step]], done, [False] * k)
        else:
            agent.act(rows[step, 0])
            agent.observe(rows[step + 1, 0], float(rewards[step, 0]), done[0], False)


def parameters_after(lib: Any, name: str, override: str, options: str) -> Any:
    """All parameters of an agent after one update, one after the other, [n]."""
    cls_name = name.split()[0]
    cls = OVERRIDES[name][override](getattr(lib.agents, cls_name))
    agent = MAKE[cls_name](lib, cls, **OPTIONS[name][options])
    drive(agent, name, options == "continuous", options in ("terminal", "replay", "continuous"))
    return parameters_of(agent, "model", "shared_model", "shared_average_model")


def main(path: str) -> None:
    import pfrl

    pfrl.agents.ppo.float = lambda number: number.item()  # of arrays [1], which NumPy 2 makes no number of
    np.savez_compressed(path, **{"/".join(case): parameters_after(pfrl, *case) for case in CASES})


if __name__ == "__main__":
    main(sys.argv[1])
