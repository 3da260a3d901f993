import copy

import pytest
import torch
from torch import Tensor, nn

from pfrl_like.batch import Batch
from pfrl_like.dynamics import DynamicsModel, ProbabilisticEnsemble
from pfrl_like.errors import NonFiniteError
from pfrl_like.testing.play import difference


class Layers(nn.Module):
    def __init__(self, batch_norm: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8) if batch_norm else nn.Identity(), nn.Tanh())

    def forward(self, x: tuple[Tensor, Tensor]) -> Tensor:
        return self.layers(torch.cat(x, 1))


def make(n_members: int = 3, batch_norm: bool = False) -> DynamicsModel:
    torch.manual_seed(0)
    network = ProbabilisticEnsemble([Layers(batch_norm) for _ in range(n_members)], 8, 3)
    return DynamicsModel(network, torch.optim.Adam(network.parameters(), lr=1e-2))


def batch(n: int = 16) -> Batch:
    obs, action = torch.randn(n, 2), torch.randn(n, 1)
    return Batch(obs, action, action[:, 0], obs + 1, torch.ones(n))


def test_samples_come_from_all_members_with_their_variances() -> None:
    model = make(n_members=2)
    for i, head in enumerate(model.network.heads):
        nn.init.zeros_(head.weight)
        head.bias.data = torch.tensor([10.0 * i, 0.0, 0.0, 0.0, 0.0, 0.0])
    drawn = model.sample(torch.zeros(4000, 2), torch.zeros(4000, 1))
    _, log_variance = model.network((torch.zeros(1, 2), torch.zeros(1, 1)))
    deviation = log_variance[0, 0].exp().sqrt()
    second = drawn.next_obs[:, 0] > 5
    assert second.float().mean() == pytest.approx(0.5, abs=0.05)
    torch.testing.assert_close(drawn.next_obs[~second].std(0), deviation[:2], atol=0.05, rtol=0)
    torch.testing.assert_close(drawn.reward.std(), deviation[2], atol=0.05, rtol=0)
    assert model.predict(torch.zeros(1, 2), torch.zeros(1, 1)).next_obs[0, 0] == pytest.approx(5)


def test_members_begin_and_stay_different() -> None:
    model = make()
    for _ in range(5):
        model.update(batch())
    means, _ = model.network((torch.ones(1, 2), torch.ones(1, 1)))
    assert len({row.item() for row in means[:, 0, 0]}) == 3


def test_predictions_change_nothing_and_use_the_moments_that_were_learnt() -> None:
    model = make(batch_norm=True)
    for _ in range(3):
        model.update(batch())
    before = copy.deepcopy(model.network.state_dict())
    one = model.predict(torch.ones(1, 2), torch.ones(1, 1))
    many = model.predict(torch.cat([torch.ones(1, 2), torch.randn(9, 2)]), torch.cat([torch.ones(1, 1)] * 10))
    torch.testing.assert_close(one.next_obs[0], many.next_obs[0])
    assert model.network.training and not one.next_obs.requires_grad
    assert difference(model.network.state_dict(), before) is None


def test_the_bounds_of_variances_are_learnt() -> None:
    model = make()
    before = [bound.clone() for bound in model.network.bounds()]
    model.update(batch())
    assert not any(torch.equal(old, new) for old, new in zip(before, model.network.bounds(), strict=True))
    held = {id(parameter) for parameter in [*model.network.layers(), *model.network.bounds()]}
    assert held == {id(parameter) for parameter in model.network.parameters()}


def test_a_model_goes_on_where_it_was_saved(tmp_path) -> None:
    first, second = make(), make()
    first.update(batch())
    first.save(tmp_path / "model")
    second.load(tmp_path / "model")
    assert second.optim_t == 1
    again = batch()
    for model in (first, second):
        torch.manual_seed(1)
        model.update(again)
    assert difference(first.network.state_dict(), second.network.state_dict()) is None


def test_what_cannot_be_learnt_from_is_refused() -> None:
    model, bad = make(), batch()
    before = copy.deepcopy(model.network.state_dict())
    bad.reward[0] = float("nan")
    with pytest.raises(NonFiniteError):
        model.update(bad)
    assert model.optim_t == 0
    assert difference(model.network.state_dict(), before) is None
    with pytest.raises(ValueError, match="encoders"):
        ProbabilisticEnsemble([], 8, 3)


def test_minibatches_are_changed_before_they_are_learnt_from() -> None:
    plain, changed, same = make(), make(), batch()
    changed.augment = lambda batch: batch.replace(obs=2 * batch.obs)
    losses = []
    for model, given in ((plain, same.replace(obs=2 * same.obs)), (changed, same)):
        torch.manual_seed(1)
        losses.append(model.update(given)[1]["loss"].item())
    assert losses[0] == losses[1]


def test_numbers_may_be_double_by_default() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        model = make()
        model.update(batch())
        assert model.predict(torch.ones(1, 2).float(), torch.ones(1, 1).float()).next_obs.dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_arguments_out_of_range_are_refused() -> None:
    network = make().network
    optimizer = torch.optim.Adam(network.parameters())
    with pytest.raises(ValueError, match="bound_weight is -0.1, expected at least 0"):
        DynamicsModel(network, optimizer, bound_weight=-0.1)
    with pytest.raises(ValueError, match="n_actions"):
        DynamicsModel(network, optimizer, n_actions=0)


def test_a_network_of_another_size_is_refused() -> None:
    network = ProbabilisticEnsemble([Layers(False)], 8, 1)
    model = DynamicsModel(network, torch.optim.Adam(network.parameters()))
    with pytest.raises(ValueError, match="network has 1 outputs, expected 3: the size of an observation plus 1"):
        model.update(batch())
