"""Models of an environment whose dynamics and noise are known."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pfrl_like.batch import Batch
from pfrl_like.dataset import MDPDataset
from pfrl_like.dynamics import MOPO, DynamicsModel, ProbabilisticEnsemble
from pfrl_like.metrics import scorer

#: x' = A x + B a with noise of these deviations, and reward c x + a with noise 0.2.
A, B, C = torch.tensor([[0.9, 0.2], [-0.1, 0.8]]), torch.tensor([[0.5], [0.3]]), torch.tensor([1.0, -1.0])
NOISE = torch.tensor([0.1, 0.3, 0.2])


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())

    def forward(self, x: tuple[Tensor, Tensor]) -> Tensor:
        return self.layers(torch.cat(x, 1))


def steps(n: int) -> Batch:
    obs, action = torch.randn(n, 2), 2 * torch.rand(n, 1) - 1
    noise = NOISE * torch.randn(n, 3)
    next_obs, reward = obs @ A.T + action @ B.T + noise[:, :2], obs @ C + action[:, 0] + noise[:, 2]
    return Batch(obs, action, reward, next_obs, torch.ones(n))


@pytest.mark.slow
def test_a_model_learns_the_mean_and_the_variance_of_a_linear_system() -> None:
    torch.manual_seed(0)
    network = ProbabilisticEnsemble([Layers() for _ in range(2)], 32, 3)
    model = DynamicsModel(network, torch.optim.Adam(network.parameters(), lr=3e-3))
    data = steps(6000)
    for _ in range(1500):
        model.update(data[torch.randint(len(data), (256,))])
    fresh = steps(2000)
    x = fresh.obs, fresh.action
    true_next, true_reward = fresh.obs @ A.T + fresh.action @ B.T, fresh.obs @ C + fresh.action[:, 0]

    predicted = model.predict(*x)
    errors = torch.cat((predicted.next_obs - true_next, (predicted.reward - true_reward)[:, None]), 1)
    assert (errors.square().mean(0).sqrt() < 0.3 * NOISE).all()
    with torch.no_grad():
        deviation = network(x)[1].exp().mean((0, 1)).sqrt()
    assert deviation.tolist() == pytest.approx(NOISE.tolist(), rel=0.1)
    assert predicted.variance.mean().item() == pytest.approx(NOISE.square().norm().item(), rel=0.2)

    drawn = model.sample(*x)
    spread = torch.cat((drawn.next_obs - true_next, (drawn.reward - true_reward)[:, None]), 1).std(0)
    assert spread.tolist() == pytest.approx(NOISE.tolist(), rel=0.15)


class Proportional:
    """An algorithm whose action is the first number of the observation, cut off at 1."""

    def sample_action(self, x: Any) -> Any:
        return np.clip(x[:, :1], -1, 1)


@pytest.mark.slow
def test_what_mopo_imagines_follows_the_system() -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    data = steps(4000)
    columns = (np.asarray(column) for column in (data.obs, data.action, data.reward))
    dataset = MDPDataset.from_arrays(*columns, np.zeros(4000), np.ones(4000), np.asarray(data.next_obs))
    small = {"n_ensembles": 2, "batch_size": 256, "encoder_params": {"hidden_units": [32, 32]}, "learning_rate": 3e-3}
    model = MOPO(**small, n_transitions=500, horizon=4, scaler="standard", lam=0.0)
    model.fit(dataset, n_epochs=100, save_metrics=False, verbose=False, show_progress=False)

    # what cannot be predicted remains: the variance of the noise
    noise = NOISE.square()
    observation_error = -scorer.dynamics_observation_prediction_error_scorer(model, dataset)
    assert observation_error == pytest.approx(noise[:2].sum().item(), rel=0.1)
    assert -scorer.dynamics_reward_prediction_error_scorer(model, dataset) == pytest.approx(noise[2].item(), rel=0.1)

    made = model.generate(Proportional(), [step for episode in dataset for step in episode])
    obs, action, next_obs = (
        torch.tensor(np.stack([getattr(step, name) for step in made]))
        for name in ("observation", "action", "next_observation")
    )
    assert torch.equal(action, obs[:, :1].clamp(-1, 1))
    reward = torch.tensor([step.next_reward for step in made])
    off = torch.cat((next_obs - obs @ A.T - action @ B.T, (reward - obs @ C - action[:, 0])[:, None]), 1)
    assert off.mean(0).abs().max() < 0.03
    assert off.std(0).tolist() == pytest.approx(NOISE.tolist(), rel=0.15)
