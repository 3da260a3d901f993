"""Functions that scripts import from PFRL's agents, and agents that scripts reach into: the same code for both.

Run by a peer's interpreter, with `tests` on its path, `python tests/peers/pfrl_functions.py FILE` writes
the numbers of each case there, as JSON.
"""

import importlib
import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peers.overrides import filled, sgd
from torch import nn
from torch.distributions import Categorical, Independent, Normal

Case = Callable[[Any], list[float]]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def module(pfrl: Any, path: str) -> Any:
    return importlib.import_module(f"{pfrl.__name__}.{path}")


def numbers(*values: Any) -> list[float]:
    """All numbers in nested lists, dicts and tensors, in order."""
    flat: list[float] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            flat += value.detach().double().flatten().tolist()
        elif isinstance(value, dict):
            flat += numbers(*(value[key] for key in sorted(value)))
        elif isinstance(value, list | tuple):
            flat += numbers(*value)
        elif value is not None:
            flat += np.asarray(value, float).flatten().tolist()
    return flat


# ACER


def categorical(*logits: float) -> tuple[Any, Any]:
    tensor = torch.tensor([logits], requires_grad=True)
    return tensor, Categorical(logits=tensor)


def gaussian(loc: float, scale: float) -> tuple[list[Any], Any]:
    parts = [torch.tensor([[loc, -loc]], requires_grad=True), torch.tensor([[scale, 0.5]], requires_grad=True)]
    return parts, Independent(Normal(*parts), 1)


def slope(loss: Any, parts: list[Any]) -> list[float]:
    return numbers(loss, *torch.autograd.grad(loss.sum(), parts))


@case
def acer_importance(pfrl: Any) -> list[float]:
    acer, (_, pi), (_, mu) = module(pfrl, "agents.acer"), categorical(0.5, -1.0, 2.0), categorical(1.0, 0.0, 0.3)
    return numbers(acer.compute_importance(pi, mu, torch.tensor([2])), acer.compute_full_importance(pi, mu))


@case
def acer_discrete_losses(pfrl: Any) -> list[float]:
    acer, found = module(pfrl, "agents.acer"), list[float]()
    value = pfrl.action_value.DiscreteActionValue(torch.tensor([[1.0, -2.0, 0.5]]))
    for with_mu, threshold in ((False, 10.0), (True, None), (True, 0.5), (True, 10.0)):
        (logits, pi), (_, mu) = categorical(0.5, -1.0, 2.0), categorical(1.0, 0.0, 0.3)
        loss = acer.compute_policy_gradient_loss(
            torch.tensor([2]), 0.7, pi, mu if with_mu else None, value, 0.2, truncation_threshold=threshold
        )
        found += slope(loss, [logits])
    (logits, pi), (_, mu) = categorical(0.5, -1.0, 2.0), categorical(1.0, 0.0, 0.3)
    return found + slope(acer.compute_policy_gradient_full_correction(pi, mu, value, 0.2, 0.5), [logits])


@case
def acer_continuous_losses(pfrl: Any) -> list[float]:
    acer, found = module(pfrl, "agents.acer"), list[float]()
    value = pfrl.action_value.SingleActionValue(lambda action: action.sum(1, keepdim=True))
    for threshold in (0.5, 2.0):
        parts, pi = gaussian(0.3, 1.2)
        _, mu = gaussian(0.5, 2.0)
        torch.manual_seed(0)
        loss = acer.compute_policy_gradient_loss(torch.tensor([[0.1, 0.4]]), 0.7, pi, mu, value, 0.2, threshold)
        found += slope(loss, parts)
    parts, pi = gaussian(0.3, 1.2)
    torch.manual_seed(1)
    loss = acer.compute_policy_gradient_sample_correction(pi, mu, value, 0.2, truncation_threshold=0.3)
    return found + slope(loss, parts)


@case
def acer_kl_constraint(pfrl: Any) -> list[float]:
    acer, found = module(pfrl, "agents.acer"), list[float]()
    for delta in (0.0, 0.05, 10.0):
        logits, pi = categorical(0.5, -1.0, 2.0)
        _, average = categorical(1.0, 0.0, 0.3)
        loss, kl = acer.compute_loss_with_kl_constraint(pi, average, -2 * pi.log_prob(torch.tensor([0])), delta=delta)
        found += [float(kl), *numbers(torch.autograd.grad(loss.sum(), logits))]
        parts, policy = gaussian(0.3, 1.2)
        _, average = gaussian(0.5, 2.0)
        loss, kl = acer.compute_loss_with_kl_constraint(
            policy, average, -policy.log_prob(torch.tensor([[0.1, 0.4]])).sum(), delta
        )
        found += [float(kl), *numbers(*torch.autograd.grad(loss, parts))]
    return found


@case
def acer_distributions(pfrl: Any) -> list[float]:
    acer, found = module(pfrl, "agents.acer"), list[float]()
    for pi in (categorical(0.5, -1.0)[1], gaussian(0.3, 1.2)[1], Categorical(probs=torch.tensor([[0.2, 0.8]]))):
        copied = acer.deepcopy_distribution(pi)
        found += numbers(*acer.get_params_of_distribution(pi), copied.entropy(), copied.entropy().requires_grad)
    return found


# PPO


def recurrent_model(pfrl: Any) -> Any:
    """A policy and values [N], not [N, 1], of which PFRL cannot make floats with NumPy 2.4."""
    policy = nn.Sequential(nn.Linear(4, 2), pfrl.policies.SoftmaxCategoricalHead())
    heads = pfrl.nn.Branched(policy, nn.Sequential(nn.Linear(4, 1), nn.Flatten(0)))
    return filled(pfrl.nn.RecurrentSequential(nn.LSTM(3, 4), heads), 3)


def steps_of_episodes(recurrent: bool) -> list[list[dict[str, Any]]]:
    state, episodes = np.random.RandomState(1), []
    for length, nonterminal in ((3, 0.0), (5, 1.0), (1, 1.0)):
        obs = state.normal(size=(length + 1, 3)).astype(np.float32)
        episodes.append([
            {
                "state": obs[i], "next_state": obs[i + 1], "action": np.int64(i % 2), "reward": float(i) - 0.5,
                "nonterminal": nonterminal if i == length - 1 else 1.0,
                **({"recurrent_state": None, "next_recurrent_state": None} if recurrent else {}),
            }
            for i in range(length)
        ])  # fmt: skip
    return episodes


WRITTEN = ("log_prob", "v_pred", "next_v_pred", "adv", "v_teacher", "reward")


def arguments(pfrl: Any, model: Any, normalizer: Any = None) -> dict[str, Any]:
    states = module(pfrl, "utils.batch_states").batch_states
    others = {"gamma": 0.9, "lambd": 0.8, "device": torch.device("cpu"), "obs_normalizer": normalizer}
    return {"model": model, "phi": lambda x: 2 * x, "batch_states": states, **others}


@case
def ppo_dataset(pfrl: Any) -> list[float]:
    ppo, found = module(pfrl, "agents.ppo"), list[float]()
    head = nn.Sequential(nn.Linear(3, 2), pfrl.policies.SoftmaxCategoricalHead())
    normalizer = pfrl.nn.EmpiricalNormalization(3)
    normalizer.experience(torch.from_numpy(np.random.RandomState(2).normal(size=(20, 3)).astype(np.float32)))
    for each in (None, normalizer):
        model = filled(pfrl.nn.Branched(head, nn.Linear(3, 1)), 5)
        dataset = ppo._make_dataset(episodes=steps_of_episodes(False), **arguments(pfrl, model, each))
        found += numbers([[step[name] for name in WRITTEN] for step in dataset])
        found.append(ppo._compute_explained_variance(dataset))
    return found


@case
def ppo_recurrent_dataset(pfrl: Any) -> list[float]:
    ppo, found = module(pfrl, "agents.ppo"), list[float]()
    for length in (None, 2):
        dataset = ppo._make_dataset_recurrent(
            episodes=steps_of_episodes(True),
            max_recurrent_sequence_len=length,
            **arguments(pfrl, recurrent_model(pfrl)),
        )
        found += [len(sequence) for sequence in dataset]
        found += numbers([[step[name] for name in WRITTEN] for sequence in dataset for step in sequence])
    return found


@case
def ppo_sequences(pfrl: Any) -> list[float]:
    ppo, found = module(pfrl, "agents.ppo"), list[float]()
    sequences = [list(range(5)), [5], list(range(6, 13)), [13, 14]]
    for n in (1, 2, 3, 4, 7, 15, 16):
        parts = ppo._limit_sequence_length(sequences, n)
        subsets = list(ppo._yield_subset_of_sequences_with_fixed_number_of_items(sequences, n))
        found += numbers(len(parts), [[len(part), *part] for part in parts], len(subsets))
        found += numbers([[len(part), *part] for subset in subsets for part in subset])
    return found


@case
def ppo_minibatches(pfrl: Any) -> list[float]:
    ppo, found = module(pfrl, "agents.ppo"), list[float]()
    for size, epochs in ((3, 2), (4, 3), (7, 1), (20, 1), (10, 2)):
        random.seed(0)
        minibatches = list(ppo._yield_minibatches(list(range(10)), minibatch_size=size, num_epochs=epochs))
        found += numbers(len(minibatches), minibatches)
    return found


@case
def ppo_clip(pfrl: Any) -> list[float]:
    x = torch.tensor([-3.0, 0.2, 5.0])
    return numbers(
        module(pfrl, "agents.ppo")._elementwise_clip(x, x.new_tensor([-1.0, 0, 6]), x.new_tensor([0.0, 1, 7]))
    )


# DQN, IQN, TRPO


@case
def dqn_states(pfrl: Any) -> list[float]:
    reset = module(pfrl, "agents.dqn")._batch_reset_recurrent_states_when_episodes_end
    states = (torch.ones(1, 3, 2), torch.full((1, 3, 2), 2.0))
    ended = reset(batch_done=[True, False, False], batch_reset=[False, False, True], recurrent_states=states)
    return numbers(ended, states, reset([False] * 3, [False] * 3, states))


@case
def dqn_target(pfrl: Any) -> list[float]:
    net = filled(nn.Sequential(nn.Linear(2, 2), nn.Dropout()), 1)
    net[0].bias.requires_grad_(False)
    target = module(pfrl, "agents.dqn").make_target_model_as_copy(net)
    assert target[0].weight is not net[0].weight
    return numbers(target.training, net.training, *([param, param.requires_grad] for param in target.parameters()))


@case
def iqn_quantiles(pfrl: Any) -> list[float]:
    phi, f = filled(nn.Linear(2, 4), 1), filled(nn.Linear(4, 2), 2)
    value = module(pfrl, "agents.iqn")._evaluate_psi_x_with_quantile_thresholds(
        torch.linspace(-1, 1, 8).view(2, 4), lambda taus: phi(torch.stack([taus, taus**2], -1)), f,
        torch.tensor([[0.1, 0.5, 0.9], [0.2, 0.3, 0.7]]),
    )  # fmt: skip
    return numbers(value.quantiles, value.greedy_actions, value.max)


@case
def trpo_vectors(pfrl: Any) -> list[float]:
    trpo, params = module(pfrl, "agents.trpo"), [nn.Parameter(torch.tensor([1.0, 2.0])), nn.Parameter(torch.ones(2, 1))]
    loss = (params[0] ** 3).sum() * params[1].sum() ** 2
    grads = trpo._flatten_and_concat_variables(torch.autograd.grad(loss, params, create_graph=True))
    product = trpo._hessian_vector_product(grads, params, torch.tensor([1.0, -1.0, 0.5, 2.0]))
    parts = trpo._split_and_reshape_to_ndarrays(product.detach(), sizes=[2, 2], shapes=[(2,), (2, 1)])
    trpo._replace_params_data(params, parts)
    episodes = [[{"recurrent_state": None}], [{"recurrent_state": (1.0, 2.0)}]]
    collects = trpo._collect_first_recurrent_states_of_policy, trpo._collect_first_recurrent_states_of_vf
    states = [collect(episodes) for collect in collects]
    return numbers(grads, product, params, *states, trpo._as_ndarray(torch.ones(2)))


@case
def means(pfrl: Any) -> list[float]:
    paths = ("ddpg", "dqn", "ppo", "soft_actor_critic", "td3", "trpo")
    found = [module(pfrl, f"agents.{path}")._mean_or_nan for path in paths]
    return [each([1.0, 2.0, 6.0]) for each in found] + [float(np.isnan(each([]))) for each in found]


# Agents that scripts reach into


def masked_agent(pfrl: Any, recurrent: bool, by_hand: bool = False, buffer: str = "", **options: Any) -> Any:
    """A DQN with action masks of its own. If `by_hand`, it advances the recurrent states itself."""
    one_step = module(pfrl, "utils.recurrent").one_step_forward

    class Masked(pfrl.agents.DQN):  # type: ignore[misc, name-defined]
        def batch_act(self, batch_obs: Any) -> Any:
            with torch.no_grad(), pfrl.utils.evaluating(self.model):
                obs = self.batch_states(batch_obs, self.device, self.phi)
                if not by_hand:
                    value = self._evaluate_model_and_update_recurrent_states(batch_obs)
                elif self.training:
                    self.train_prev_recurrent_states = self.train_recurrent_states
                    value, self.train_recurrent_states = one_step(self.model, obs, self.train_recurrent_states)
                else:
                    value, self.test_recurrent_states = one_step(self.model, obs, self.test_recurrent_states)
                q = value.q_values.cpu().numpy().copy()
            for row, obs in zip(q, batch_obs, strict=True):
                row[int(abs(obs[0]) * 10) % 3] = -np.inf  # the forbidden action depends on the observation
            best = q.argmax(axis=1)
            if not self.training:
                return best
            self.batch_last_obs = list(batch_obs)
            self.batch_last_action = [
                self.explorer.select_action(self.t, lambda i=i: best[i], action_value=value[i : i + 1])
                for i in range(len(batch_obs))
            ]
            return self.batch_last_action

    head = pfrl.q_functions.DiscreteActionValueHead()
    if recurrent:
        net = pfrl.nn.RecurrentSequential(nn.LSTM(3, 4), nn.Linear(4, 3), head)
    else:
        net = nn.Sequential(nn.Linear(3, 3), head)
    buffer = buffer or ("EpisodicReplayBuffer" if recurrent else "ReplayBuffer")
    return Masked(
        filled(net, 7), sgd(net), getattr(pfrl.replay_buffers, buffer)(100), 0.9,
        pfrl.explorers.Greedy(), recurrent=recurrent, target_update_interval=4,
        **{"replay_start_size": 4, "minibatch_size": 4, **options},
    )  # fmt: skip


def steps(agent: Any, k: int, n: int) -> Iterator[Any]:
    """The actions of n steps of an agent with k environments, each after it is observed."""
    state = np.random.RandomState(4)
    rows = state.normal(size=(n + 1, k, 3)).astype(np.float32)
    for t in range(n):
        done, reset = [t % 7 == 5 + i for i in range(k)], [t % 7 == 3 and i == 0 for i in range(k)]
        actions = list(agent.batch_act([*rows[t]]))  # PFRL writes into its own list
        agent.batch_observe([*rows[t + 1]], state.normal(size=k).tolist(), done, reset)
        yield actions


@case
def masked_actions(pfrl: Any) -> list[float]:
    found = []
    for recurrent, by_hand in ((False, False), (True, False), (True, True)):
        agent = masked_agent(pfrl, recurrent, by_hand, replay_start_size=90)
        found += numbers(*steps(agent, 2, 20))
        stored = len(agent.replay_buffer)
        with agent.eval_mode():
            found += numbers(*steps(agent, 2, 20))
        found += [stored, len(agent.replay_buffer), agent.t, agent.optim_t]
        found += numbers(agent.train_recurrent_states, agent.test_recurrent_states)
    return found


@case
def schedule_of_updates(pfrl: Any) -> list[float]:
    found = []
    for recurrent in (False, True):
        agent = masked_agent(pfrl, recurrent, n_times_update=2, update_interval=2, episodic_update_len=3)
        updater = agent.replay_updater
        found += [updater.replay_start_size, updater.batchsize, updater.update_interval, updater.n_times_update]
        found += [updater.episodic_update, updater.episodic_update_len, updater.replay_buffer is agent.replay_buffer]
        found += [agent.optim_t for _ in steps(agent, 1, 16)]
        found += [updater.update_if_necessary(3), agent.optim_t, updater.update_if_necessary(4), agent.optim_t]
        updater.n_times_update = 5
        updater.update_if_necessary(4)
        found.append(agent.optim_t)
    return numbers(found)


@case
def own_updates(pfrl: Any) -> list[float]:
    agent, sizes = masked_agent(pfrl, False, buffer="PrioritizedReplayBuffer"), list[int]()

    def update(experiences: Any) -> None:
        sizes.append(len(experiences))
        agent.update(experiences)

    agent.replay_updater = module(pfrl, "replay_buffer").ReplayUpdater(
        agent.replay_buffer, update, batchsize=6, episodic_update=False, n_times_update=1, replay_start_size=8,
        update_interval=3,
    )  # fmt: skip
    assert len([*steps(agent, 1, 20)]) == 20
    return [*sizes, agent.optim_t, len(agent.replay_buffer)]


if __name__ == "__main__":
    library = importlib.import_module("pfrl")
    facts = {name: [round(float(number), 6) for number in function(library)] for name, function in CASES.items()}
    Path(sys.argv[1]).write_text(json.dumps(facts, indent=None).replace("], ", "],\n ") + "\n")
