"""One update beside d3rlpy 2.8.1 in float64, from equal weights, on the same minibatch, by the same random numbers.

What d3rlpy answered is in `tests/data/peers`, where `tests/peers/d3rlpy_updates.py` writes it in d3rlpy's environment
(`make peers`); `pytest -m peers` asks it anew. Where the libraries differ, a test says by what.
"""

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from peer_libraries import TESTS, answer, asks
from peers import problem
from torch import Tensor, nn
from torch.distributions import Independent, Normal

from pfrl_like import agents
from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.agents.soft_actor_critic import soft_reward
from pfrl_like.algos.fitting import networks as nets
from pfrl_like.algos.fitting.base import ESTIMATORS
from pfrl_like.batch import Batch, Continuation
from pfrl_like.distributions import SquashedGaussian
from pfrl_like.encoders import Encoder, make_encoder
from pfrl_like.explorers import Greedy
from pfrl_like.functions.losses import huber, maximum_mean_discrepancy
from pfrl_like.nn import ConditionalVAE
from pfrl_like.q_functions import QFunctionEnsemble
from pfrl_like.q_functions.state_action_q_functions import members_of
from pfrl_like.replay_buffers import ReplayBuffer

ANSWERS = TESTS / "data/peers"
LR, EPS = problem.LEARNING_RATE, problem.EPS

Array = NDArray[Any]
#: Losses are equal to nine digits.
near = functools.partial(pytest.approx, rel=1e-9, abs=1e-9)


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def losses_in(folder: Path) -> dict[str, dict[str, float]]:
    """What d3rlpy reported, by case."""
    found: dict[str, dict[str, float]] = json.loads((folder / "d3rlpy_updates.json").read_text())
    return found


@functools.cache
def arrays_in(folder: Path) -> dict[str, Array]:
    """What d3rlpy drew and what it left, by case and name."""
    with np.load(folder / "d3rlpy_updates.npz") as file:
        return dict(file)


LOSSES = losses_in(ANSWERS)


def answers(case: str, kind: str) -> dict[str, Array]:
    """Arrays of a case, those that it has "drawn" or the networks "after" it, by name."""
    start = f"{case}/{kind}/"
    return {key.removeprefix(start): array for key, array in arrays_in(ANSWERS).items() if key.startswith(start)}


# Our side


def estimator(name: str, **options: Any) -> Any:
    """The agent of an estimator with the problem's networks and optimisers."""
    kind = ESTIMATORS[name]
    rates = {rate: LR for rate in kind.defaults() if rate.endswith("learning_rate")}
    given = {"eps": EPS, "encoder_params": {"hidden_units": problem.HIDDEN}, **rates}
    if "gamma" in kind.defaults():
        given["gamma"] = problem.GAMMA
    made = kind(**given | options)
    made.create_impl((problem.OBS_SIZE,), problem.N_ACTIONS if made.discrete_action else problem.ACTION_SIZE)
    return made.impl


def of_state() -> Encoder:
    return make_encoder((problem.OBS_SIZE,), {"hidden_units": problem.HIDDEN})


def of_pair(size: int = problem.ACTION_SIZE) -> Encoder:
    return make_encoder((problem.OBS_SIZE,), {"hidden_units": problem.HIDDEN}, action_size=size)


def adam_of(module: nn.Module, lr: float = LR) -> torch.optim.Optimizer:
    return nets.adam(module, lr, EPS)


def actor_critic(
    kind: Callable[..., Any], policy: nn.Module, *rest: Any, make_critic: Any = None, lr: float = LR,
    policy_optimizer: torch.optim.Optimizer | None = None, **options: Any,
) -> Any:  # fmt: skip
    """An agent of two critics."""
    critics = [make_critic() if make_critic else nets.mean_q_function(of_pair(), 1) for _ in range(2)]
    optimizers = [adam_of(critic, lr) for critic in critics]
    buffer: ReplayBuffer = ReplayBuffer(None)
    actor = policy_optimizer or adam_of(policy)
    return kind(policy, *critics, actor, *optimizers, buffer, problem.GAMMA, *rest, **options)


class Clamped(Independent):
    """Samples are cut off at +-1, which their density does not know."""

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return super().rsample(sample_shape).clamp(-1.0, 1.0)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.rsample(sample_shape).detach()


class GaussianAroundTanh(nn.Module):
    """d3rlpy's policy of advantage-weighted agents: the mean is squashed, the sample is not.

    Args:
        bounds: Of the deviation's logarithm, which is then a parameter; None for one that a layer gives.
    """

    def __init__(self, bounds: tuple[float, float] | None) -> None:
        super().__init__()
        self.encoder, self.bounds, size = of_state(), bounds, problem.ACTION_SIZE
        self.last = nn.Linear(problem.HIDDEN[-1], size if bounds else 2 * size)
        self.log_std = nn.Parameter(torch.zeros(size)) if bounds else None

    def mean_and_std(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        out = self.last(self.encoder(obs))
        if self.bounds is None:
            mean, log_std = out.chunk(2, -1)
            return mean, log_std.exp()
        low, high = self.bounds
        return out, (low + self.log_std.sigmoid() * (high - low)).exp().expand_as(out)

    def forward(self, obs: Tensor) -> Clamped:
        mean, std = self.mean_and_std(obs)
        return Clamped(Normal(mean.tanh(), std), 1)


def networks(agent: Any) -> dict[str, nn.Module]:
    """The networks of an agent by the names that d3rlpy gives them; `targ_` for targets."""
    of_dqn = hasattr(agent, "model") and not hasattr(agent, "policy")
    critics = [*members_of(agent.model)] if of_dqn else agent.critics
    targets = [*members_of(agent.target_model)] if of_dqn else agent.target_critics
    found = {f"q_funcs{i}": critic for i, critic in enumerate(critics)}
    found |= {f"targ_q_funcs{i}": target for i, target in enumerate(targets)}
    clones = isinstance(agent, agents.BC)
    named = {"policy": "imitator" if clones else "policy", "target_policy": "targ_policy"}
    named |= {"perturbation": "perturbation", "target_perturbation": "targ_perturbation"}
    for ours, theirs in named.items():
        if getattr(agent, ours, None) is not None:
            found[theirs] = getattr(agent, ours)
    if hasattr(agent, "v_func"):
        found["value_func"] = agent.v_func
    if isinstance(imitator := getattr(agent, "imitator", None), ConditionalVAE):
        found |= {"vae_encoder": imitator.encoder, "vae_decoder": imitator.decoder}
    elif imitator is not None:
        found["imitator"] = imitator
    return found


def parameters(network: nn.Module) -> list[Tensor]:
    """All parameters in d3rlpy's order: a deviation that is one comes last."""
    return sorted(network.parameters(), key=lambda each: each is getattr(network, "log_std", None))


def flat(network: nn.Module) -> Array:
    return torch.cat([each.detach().flatten() for each in parameters(network)]).numpy()


def fill(agent: Any, order: Any = slice(None)) -> None:
    """Give all networks the problem's weights, in the order that they have here."""
    for name, network in networks(agent).items():
        target, stem = name.startswith("targ_"), name.removeprefix("targ_")
        number = int(stem[-1]) if stem[-1].isdigit() else 0
        part = {"q_funcs": "q", "value_func": "value"}.get(stem.rstrip("0123456789"), stem)
        given = problem.weights(part, flat(network).size, number, target)
        problem.fill(parameters(network), given[order])


def minibatch(discrete: bool) -> Batch:
    """The problem's minibatch, with the one step that comes after each that is not terminal."""
    rows = {name: torch.as_tensor(column).double() for name, column in problem.minibatch(discrete).items()}
    discount = problem.GAMMA * (1 - rows["terminals"].flatten())
    after = torch.arange(problem.ROWS)
    continuation = Continuation(
        first=torch.where(discount > 0, after, -1), reward=rows["later_rewards"].flatten(),
        discount=torch.zeros(problem.ROWS), next_obs=rows["observations"], after=torch.full((problem.ROWS,), -1),
        cut=torch.zeros(0, dtype=torch.int64),
    )  # fmt: skip
    return Batch(
        rows["observations"], rows["actions"].flatten().long() if discrete else rows["actions"],
        rows["rewards"].flatten(), rows["next_observations"], discount, next_action=rows["next_actions"],
        continuation=continuation,
    )  # fmt: skip


def updated(
    agent: Any, case: str, draws: Callable[[Sequence[Array]], Sequence[Array]] = list, order: Any = slice(None)
) -> dict[str, float]:
    """Statistics of one update, means where they are of all rows, after which all that d3rlpy drew is used up.

    Args:
        agent: The agent.
        case: Whose draws it is given.
        draws: Brings them into the order and the shapes in which the agent asks for them.
        order: Of the weights.
    """
    fill(agent, order)
    drawn = [*answers(case, "drawn").values()]
    agent.optim_t = getattr(agent, "policy_update_delay", 1) - 1  # so that the policy learns in this update
    with problem.Replayed(draws(drawn)) as replayed:
        _, stats = agent.update(minibatch(getattr(agent, "action_kind", ("discrete",))[0] == "discrete"))
    assert not replayed.left
    return {name: float(value.mean()) for name, value in stats.items()}


def assert_same_parameters(agent: Any, case: str, order: Any = slice(None)) -> None:
    """All networks are as d3rlpy's after its update, and not as before."""
    ours = networks(agent)
    theirs = answers(case, "after")
    assert theirs.keys() == {name for name in ours if not name.startswith("targ_")}
    for name, after in theirs.items():
        assert np.allclose(flat(ours[name]), after[order], rtol=1e-6, atol=1e-6), name


def halved(agent: Any) -> Any:
    """The agent, with Adams of the critics that take equal steps on half the loss."""
    for name in ("q_func1_optimizer", "q_func2_optimizer"):
        for group in agent.gradient_steps[name].optimizer.param_groups if name in agent.gradient_steps else ():
            group["eps"] = EPS / 2
    return agent


# Equal updates


class HuberSAC(agents.DiscreteSAC):
    """With the critics' loss that d3rlpy has; half the square in `DiscreteSAC`."""

    _elementwise = staticmethod(huber)


#: d3rlpy's layer of quantiles has those of one action side by side, ours those of one fraction.
HEAD = problem.HIDDEN[-1]
QUANTILES = np.arange(problem.N_ACTIONS * 32).reshape(problem.N_ACTIONS, 32).T.flatten()


def conservative_draws(draws: Sequence[Array]) -> Sequence[Array]:
    """CQL's uniform actions, drawn in [-1, 1] with those of one row side by side, as ours are drawn in [0, 1]."""
    first, of_policy, of_next, uniform, last = draws
    uniform = uniform.reshape(problem.ROWS, -1, problem.ACTION_SIZE).transpose(1, 0, 2)
    return [first, of_policy, of_next, (uniform.copy() + 1) / 2, last]


def td3_like(kind: Any) -> Any:
    return actor_critic(kind, nets.deterministic_policy(of_state(), problem.ACTION_SIZE), Greedy())


Reported = dict[str, tuple[str, float]]
OF_ONE_LOSS: Reported = {"loss": ("loss", 1.0)}
OF_ACTOR_CRITIC: Reported = {"critic_loss": ("loss", 1.0), "actor_loss": ("policy_loss", 1.0)}
#: Case, our agent, and what d3rlpy reports by our statistics: name and factor.
EQUAL: dict[str, tuple[Callable[[], Any], Reported]] = {
    "DQN": (lambda: estimator("DQN", clip_delta=True), OF_ONE_LOSS),
    "DQN, two critics": (lambda: estimator("DQN", clip_delta=True, n_critics=2), OF_ONE_LOSS),
    "DoubleDQN": (lambda: estimator("DoubleDQN", clip_delta=True), OF_ONE_LOSS),
    "DiscreteCQL": (lambda: estimator("DiscreteCQL", clip_delta=True), OF_ONE_LOSS),
    "DiscreteBCQ": (
        lambda: estimator("DiscreteBCQ", clip_delta=True, beta=0.0),
        {"loss": ("loss", 1.0), "imitator_loss": ("imitator_loss", 1.0)},
    ),
    "DiscreteSAC": (
        lambda: actor_critic(
            HuberSAC, nets.categorical_policy(of_state(), problem.N_ACTIONS), initial_temperature=0.5,
            make_critic=lambda: nets.mean_q_function(of_state(), problem.N_ACTIONS),
        ),
        OF_ACTOR_CRITIC,
    ),
    "BC": (lambda: estimator("BC"), OF_ONE_LOSS),
    "DDPG": (
        lambda: estimator("DDPG", regularizing_rate=0.0),
        {"critic_loss": ("critic_loss", 1.0), "actor_loss": ("actor_loss", 1.0)},
    ),
    "TD3": (lambda: estimator("TD3"), OF_ACTOR_CRITIC),
    "TD3PlusBC": (lambda: td3_like(agents.TD3PlusBC), OF_ACTOR_CRITIC),
    "ReBRAC": (lambda: td3_like(agents.ReBRAC), OF_ACTOR_CRITIC),
    "SAC, fixed temperature": (
        lambda: halved(estimator("SAC", temp_learning_rate=0.0, initial_temperature=0.5)),
        {"critic_loss": ("loss", 2.0), "actor_loss": ("policy_loss", 1.0)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", EQUAL)
def test_an_update_is_that_of_d3rlpy(case: str) -> None:
    make, reported = EQUAL[case]
    agent = make()
    stats = updated(agent, case)
    for theirs, (ours, factor) in reported.items():
        assert LOSSES[case][theirs] == near(factor * stats[ours]), theirs
    assert_same_parameters(agent, case)


def test_quantiles_learn_as_those_of_d3rlpy() -> None:
    agent = estimator("DQN", q_func_type="qr")
    order = np.arange(flat(networks(agent)["q_funcs0"]).size)
    weights, biases = QUANTILES.size * HEAD, QUANTILES.size
    order[-weights - biases : -biases] = order[-weights - biases : -biases].reshape(-1, HEAD)[QUANTILES].flatten()
    order[-biases:] = order[-biases:][QUANTILES]
    stats = updated(agent, "DQN, quantiles", order=order)
    assert LOSSES["DQN, quantiles"]["loss"] == near(stats["loss"])
    assert_same_parameters(agent, "DQN, quantiles", order)


# Updates that differ, and by what


def test_half_the_squares_are_learnt_from_unless_clip_delta_is_true() -> None:
    agent = estimator("DQN")
    fill(agent)
    error, stats = agent.update(minibatch(discrete=True))
    size = error.abs()
    assert stats["loss"] == pytest.approx(float((error**2 / 2).mean()))
    assert LOSSES["DQN"]["loss"] == pytest.approx(float(torch.where(size < 1, error**2 / 2, size - 0.5).mean()))


def test_a_gap_of_each_critic_counts_in_discrete_cql_where_d3rlpy_has_that_of_their_mean() -> None:
    agent = estimator("DiscreteCQL", clip_delta=True, n_critics=2)
    fill(agent)
    batch = minibatch(discrete=True)
    with torch.no_grad():
        values = [member.q_values for member in agent.model(batch.obs).members]
    gap, gap1, gap2 = (
        float((q.logsumexp(1) - q.gather(1, batch.action.unsqueeze(1)).squeeze(1)).mean())
        for q in (sum(values) / 2, *values)
    )
    theirs, stats = LOSSES["DiscreteCQL, two critics"], updated(agent, "DiscreteCQL, two critics")
    assert theirs["conservative_loss"] == near(gap)
    assert stats["loss"] - gap1 - gap2 == near(theirs["td_loss"])


def test_beta_of_discrete_bc_weighs_logits_where_d3rlpy_has_log_probabilities() -> None:
    agent = estimator("DiscreteBC", beta=0.5)
    fill(agent)
    with torch.no_grad():
        logits = agent.policy[:-1](minibatch(discrete=True).obs)
    theirs, stats = LOSSES["DiscreteBC"], updated(agent, "DiscreteBC")
    assert theirs["regularization_loss"] == near(0.5 * float(logits.log_softmax(1).square().mean()))
    ours = 0.5 * float(logits.square().mean())
    assert theirs["imitation_loss"] == near(stats["loss"] - ours)


def test_sac_follows_the_temperature_before_its_step_where_d3rlpy_has_that_after_it() -> None:
    agent = halved(estimator("SAC"))
    agent.temperature_optimizer.param_groups[0]["eps"] = EPS
    theirs, stats = LOSSES["SAC"], updated(agent, "SAC")
    assert theirs["critic_loss"] == near(2 * stats["loss"])
    assert theirs["temp"] == pytest.approx(agent.temperature) and agent.temperature != 1  # which float32 holds
    mean_log_prob = -stats["entropy"]
    ours = stats["policy_loss"] + (theirs["temp"] - 1) * mean_log_prob
    assert theirs["actor_loss"] == near(ours)


def conservative(kind: str) -> Any:
    """An agent whose alpha is 1."""
    agent = actor_critic(
        getattr(agents, kind), nets.squashed_gaussian_policy(of_state(), problem.ACTION_SIZE), conservative_weight=5.0,
        alpha_threshold=None, initial_alpha=1.0, n_action_samples=4,
    )  # fmt: skip
    if kind == "CalQL":
        agent._target_value = lambda obs: torch.zeros(len(obs))  # of episodes that were cut off; here none is
    return agent


@pytest.mark.parametrize("case", ["CQL", "CalQL"])
def test_the_threshold_is_no_part_of_cqls_loss_where_d3rlpy_has_it_times_the_weight(case: str) -> None:
    agent = conservative(case)
    theirs, stats = LOSSES[case], updated(agent, case, conservative_draws)
    # d3rlpy computes the returns of Cal-QL in float32.
    assert theirs["critic_loss"] == pytest.approx(stats["loss"] - 2 * 5.0 * 10.0, rel=1e-8)
    assert theirs["actor_loss"] == near(stats["policy_loss"])
    assert_same_parameters(agent, case)


def test_d3rlpy_updates_alpha_before_cqls_loss_and_targets_have_the_mode_of_the_policy() -> None:
    agent, case = conservative("CalQL"), "CalQL, alpha that learns"
    agent.soft_q_backup = False
    mode = np.zeros((problem.ROWS, problem.ACTION_SIZE))  # of a sampled action where d3rlpy takes the mode
    theirs, stats = LOSSES[case], updated(agent, case, lambda draws: conservative_draws([mode, *draws]))
    gap = stats["conservative_gap"]
    excess = gap - 5.0 * 10.0
    alpha = np.exp(LR * excess / (abs(excess) + EPS))
    assert theirs["alpha"] == pytest.approx(alpha, rel=1e-8)
    assert theirs["critic_loss"] == pytest.approx(stats["loss"] - 2 * gap + 2 * alpha * excess, rel=1e-8)


@pytest.mark.parametrize("case", ["IQL", "IQL, critics that stay"])
def test_iql_weighs_by_values_before_their_step_where_d3rlpy_has_those_after_it(case: str) -> None:
    stays = case != "IQL"
    value = nn.Sequential(of_state(), nn.Linear(HEAD, 1))
    lr = 0.0 if stays else LR
    agent = actor_critic(
        agents.IQL, GaussianAroundTanh((-5.0, 2.0)), lr=lr, v_func=value, v_func_optimizer=adam_of(value, lr)
    )
    theirs, stats = LOSSES[case], updated(agent, case)
    assert theirs["q_loss"] == near(stats["loss"])
    assert theirs["v_loss"] == near(stats["v_func_loss"])
    assert theirs["critic_loss"] == near(stats["loss"] + stats["v_func_loss"])
    assert (theirs["actor_loss"] == near(stats["policy_loss"])) == stays


class AWACOfD3rlpy(agents.AWAC):
    """Targets hold the entropy of a squashed policy, with weight 1; weights are a softmax over the minibatch."""

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        of_next = SquashedGaussian(*self.policy.mean_and_std(batch.next_obs))
        action, log_prob = of_next.rsample_with_log_prob()
        value = [critic((batch.next_obs, action)).q_values for critic in self.target_critics]
        return DiscreteActionValue(torch.stack(value).amin(0)), soft_reward(batch, log_prob, 1.0)

    def _weight(self, batch: Batch) -> Tensor:
        return len(batch) * super()._weight(batch).log().softmax(0)  # the logarithm is the advantage


def test_awac_differs_from_d3rlpy_in_targets_and_weights() -> None:
    bounds = -6.0, 0.0
    agent = actor_critic(AWACOfD3rlpy, GaussianAroundTanh(bounds), n_action_samples=4)
    theirs, stats = LOSSES["AWAC"], updated(agent, "AWAC")
    assert theirs["critic_loss"] == near(stats["loss"])
    assert theirs["actor_loss"] == near(problem.ROWS * stats["policy_loss"])  # a sum
    own = updated(actor_critic(agents.AWAC, GaussianAroundTanh(bounds), n_action_samples=4), "AWAC")
    assert own["loss"] != pytest.approx(stats["loss"], rel=0.1)
    assert own["policy_loss"] != pytest.approx(stats["policy_loss"], rel=1e-3)


def test_crr_of_one_critic_is_that_of_d3rlpy() -> None:
    policy, critic = GaussianAroundTanh(None), nets.mean_q_function(of_pair(), 1)
    ensemble = QFunctionEnsemble([critic])
    agent = agents.CRR(policy, ensemble, None, *map(adam_of, (policy, ensemble)), None, ReplayBuffer(), problem.GAMMA)
    theirs, stats = LOSSES["CRR"], updated(agent, "CRR")
    assert theirs["critic_loss"] == near(stats["loss"])
    assert theirs["actor_loss"] == near(stats["policy_loss"])
    assert_same_parameters(agent, "CRR")


def autoencoder(latent_size: int = 2 * problem.ACTION_SIZE) -> ConditionalVAE:
    """d3rlpy's model of actions, whose decoder does not squash them; that of our estimators does."""
    encoder, decoder = of_pair(), of_pair(latent_size)
    return ConditionalVAE(
        nn.Sequential(encoder, nn.Linear(HEAD, 2 * latent_size)),
        nn.Sequential(decoder, nn.Linear(HEAD, problem.ACTION_SIZE)),
        latent_size,
    )


@pytest.mark.parametrize("case", ["PLAS", "PLAS, model", "PLASWithPerturbation"])
def test_plas_updates_as_in_d3rlpy_if_the_decoder_does_not_squash(case: str) -> None:
    imitator, policy = autoencoder(), nets.bounded_network(of_state(), 2 * problem.ACTION_SIZE)
    options = {
        "imitator": imitator,
        "imitator_optimizer": adam_of(imitator),
        "rl_start_step": int(case == "PLAS, model"),
    }
    if case == "PLASWithPerturbation":
        options["perturbation"] = perturbation = nets.bounded_network(of_pair(), problem.ACTION_SIZE)
        options["policy_optimizer"] = adam_of(nn.ModuleList([policy, perturbation]))
    agent = actor_critic(getattr(agents, case.split(",")[0]), policy, **options)
    theirs, stats = LOSSES[case], updated(agent, case)
    names = {"vae_loss": "imitator_loss", "critic_loss": "loss", "actor_loss": "policy_loss"}
    assert theirs == {name: near(stats[names[name]]) for name in theirs} and theirs
    assert_same_parameters(agent, case)


def test_bcqs_model_learns_last_and_squashes_where_d3rlpys_learns_first_and_does_not() -> None:
    imitator = autoencoder()
    agent = actor_critic(
        agents.BCQ, nets.bounded_network(of_pair(), problem.ACTION_SIZE), imitator=imitator,
        imitator_optimizer=adam_of(imitator, 0.0), n_action_samples=4,
    )  # fmt: skip
    theirs, stats = LOSSES["BCQ"], updated(agent, "BCQ", lambda draws: [*draws[1:], draws[0]])
    assert theirs["vae_loss"] == near(stats["imitator_loss"])
    assert theirs["critic_loss"] == near(stats["loss"])
    assert theirs["actor_loss"] == near(stats["policy_loss"])
    assert_same_parameters(agent, "BCQ")


class BEAROfD3rlpy(agents.BEAR):
    """Compares actions of the policy before they are squashed; their gradient does not reach the policy.

    d3rlpy descends on minus the term for alpha and leaves the gradients in the policy, where they cancel the term's.
    """

    def _discrepancy(self, batch: Batch) -> Tensor:
        with torch.no_grad():
            imitated = self.imitator.draw(batch.obs, 4).tanh()
            before = self.policy(batch.obs).base_dist.rsample((4,))
            return maximum_mean_discrepancy(before, imitated, 20.0, "laplacian")


def bear_draws(draws: Sequence[Array]) -> Sequence[Array]:
    """The model learns last, and the latent numbers of one row lie side by side."""
    of_loss, of_next, of_policy, latent, compared = draws
    latent = latent.reshape(-1, problem.ROWS, latent.shape[-1]).transpose(1, 0, 2).reshape(latent.shape)
    return [of_next, of_policy, latent.copy(), compared, of_loss]


def test_bear_holds_squashed_actions_near_the_model_where_d3rlpys_term_does_not_reach_the_policy() -> None:
    def make(kind: Any) -> Any:
        imitator = autoencoder()
        return actor_critic(
            kind, nets.squashed_gaussian_policy(of_state(), problem.ACTION_SIZE), imitator=imitator,
            imitator_optimizer=adam_of(imitator, 0.0), mmd_kernel="laplacian", alpha_threshold=None,
        )  # fmt: skip

    agent = make(BEAROfD3rlpy)
    theirs, stats = LOSSES["BEAR"], updated(agent, "BEAR", bear_draws)
    assert theirs["imitator_loss"] == near(stats["imitator_loss"])
    assert theirs["critic_loss"] == near(stats["loss"])
    assert theirs["mmd_loss"] == near(stats["mmd"] - 0.05)
    assert theirs["actor_loss"] == near(stats["policy_loss"] - 0.05)
    assert_same_parameters(agent, "BEAR")
    own = updated(ours := make(agents.BEAR), "BEAR", bear_draws)
    assert own["loss"] == near(stats["loss"])  # what the critics learn is the same
    assert own["mmd"] != pytest.approx(stats["mmd"], rel=0.1)
    assert not np.allclose(flat(ours.policy), flat(agent.policy), atol=1e-3)


# The library itself


@asks("d3rlpy")
def test_d3rlpy_still_answers_so(tmp_path: Path) -> None:
    answer("d3rlpy", "peers/d3rlpy_updates.py", tmp_path)
    now, before = arrays_in(tmp_path), arrays_in(ANSWERS)
    assert now.keys() == before.keys()
    for name, array in now.items():
        assert np.allclose(array, before[name], rtol=1e-9, atol=1e-9), name
    for case, reported in losses_in(tmp_path).items():
        assert reported == near(LOSSES[case]), case
