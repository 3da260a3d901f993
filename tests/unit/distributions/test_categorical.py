import numpy as np
import pytest
import torch
from torch.distributions import kl_divergence

from pfrl_like.distributions import Categorical, MaskedCategorical, ProductOfCategoricals, masked

LOGITS = torch.tensor([[0.5, -1.0, 2.0], [1.0, 0.0, -3.0]])
MASK = torch.tensor([[True, False, True], [False, False, False]])


def test_actions_may_be_floats_and_one_for_all_rows() -> None:
    ours, theirs = Categorical(LOGITS), torch.distributions.Categorical(logits=LOGITS)
    assert ours.param_shape == (2, 3) and torch.equal(ours.enumerate_support(), theirs.enumerate_support())
    for action in ([2.0, 1.0], 1):
        torch.testing.assert_close(ours.log_prob(torch.tensor(action)), theirs.log_prob(torch.tensor(action)))


def test_gradients_are_found_after_a_question_without_them() -> None:
    logits = LOGITS.clone().requires_grad_()
    distribution = Categorical(logits)
    with torch.no_grad():
        distribution.sample(), distribution.entropy(), distribution.probs  # noqa: B018
    distribution.entropy().sum().backward()
    assert logits.grad is not None and logits.grad.abs().sum() > 0


@pytest.mark.parametrize(
    "logits", [[1e30, 0.0, -1e30], [-torch.inf, 0.0, 0.0], [1e4, 1e4, 0.0], [-torch.inf, -torch.inf, 3.0]]
)
def test_extreme_logits_give_finite_numbers_and_gradients(logits: list[float]) -> None:
    x = torch.tensor([logits], requires_grad=True)
    distribution = Categorical(x)
    likeliest = distribution.mode
    divergence = kl_divergence(distribution, Categorical(x.detach()))
    terms = (distribution.log_prob(likeliest), distribution.entropy(), divergence)
    for term in terms:
        assert torch.isfinite(term).all()
        assert torch.isfinite(torch.autograd.grad(term.sum(), x, retain_graph=True)[0]).all()


def test_only_allowed_actions_are_drawn() -> None:
    distribution = MaskedCategorical(torch.tensor([[9.0, 0.0, 0.0]]), [[False, True, True]])
    assert distribution.sample((200,)).unique().tolist() == [1, 2]
    assert distribution.mode.item() in (1, 2)
    assert distribution.probs[0, 0] == 0


def test_a_row_that_allows_nothing_allows_everything() -> None:
    distribution = MaskedCategorical(LOGITS, MASK)
    torch.testing.assert_close(distribution.probs[1], Categorical(LOGITS).probs[1])
    assert distribution.entropy()[1] == Categorical(LOGITS).entropy()[1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_sums_over_all_actions_and_their_gradients_are_finite(dtype: torch.dtype) -> None:
    logits = LOGITS.to(dtype, copy=True).requires_grad_()
    distribution = MaskedCategorical(logits, MASK)
    assert distribution.log_prob(torch.tensor([1, 1]))[0] < -1e4  # forbidden
    q = torch.tensor([3.0, 1.0, 2.0], dtype=dtype)
    loss = (distribution.probs * (distribution.logits - q)).sum() + distribution.entropy().sum()
    loss = loss + kl_divergence(distribution, Categorical(LOGITS.to(dtype))).sum()
    assert torch.isfinite(loss)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert torch.isfinite(gradient).all() and gradient[0, 1] == 0


def test_the_log_probability_of_a_forbidden_action_does_not_move_the_network_out_of_bounds() -> None:
    logits = LOGITS.clone().requires_grad_()
    MaskedCategorical(logits, MASK).log_prob(torch.tensor([1, 1])).sum().backward()
    assert logits.grad is not None and torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("form", [MASK, MASK.numpy(), MASK.numpy().astype(np.int8), MASK.tolist()])
def test_masks_come_as_tensors_arrays_and_lists(form: object) -> None:
    assert torch.equal(MaskedCategorical(LOGITS, form).probs, MaskedCategorical(LOGITS, MASK).probs)
    of_first_row = MaskedCategorical(LOGITS[:1].expand(2, 3), form[0])  # type: ignore[index]
    torch.testing.assert_close(of_first_row.probs[1], MaskedCategorical(LOGITS, MASK).probs[0])


def test_masks_add_up() -> None:
    distribution = Categorical(torch.zeros(1, 3)).masked([False, True, True]).masked([True, True, False])
    assert distribution.probs.tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("cls", [Categorical, lambda logits: torch.distributions.Categorical(logits=logits)])
def test_masked_takes_categoricals_of_both(cls: type) -> None:
    assert torch.equal(masked(cls(LOGITS), MASK).probs, MaskedCategorical(LOGITS, MASK).probs)


def test_masked_refuses_what_is_not_categorical() -> None:
    gaussian = torch.distributions.Normal(torch.zeros(2, 3), 1.0)
    with pytest.raises(TypeError, match=r"action_mask: the policy returns Normal, expected a categorical distribution"):
        masked(gaussian, MASK)


def test_a_mask_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"action_mask has shape \(2, 2\), expected \(2, 3\) or \(3,\)"):
        masked(Categorical(LOGITS), MASK[:, :2])
    with pytest.raises(ValueError, match=r"action_mask has shape \(2,\), expected \(3,\)"):
        masked(Categorical(LOGITS[0]), MASK[0, :2])


class TestProductOfCategoricals:
    PARTS = (torch.tensor([[0.5, -1.0], [1.0, 0.0]]), torch.tensor([[0.1, 2.0, 0.3], [0.0, 0.0, -3.0]]))

    def test_it_is_one_categorical_for_each_choice(self) -> None:
        for distribution in (
            ProductOfCategoricals(self.PARTS),
            ProductOfCategoricals(torch.cat(self.PARTS, 1), np.array([2, 3])),
        ):
            parts = [Categorical(part) for part in self.PARTS]
            assert (distribution.batch_shape, distribution.event_shape) == ((2,), (2,))
            value = torch.tensor([[1, 2], [0, 1]])
            expected = parts[0].log_prob(value[:, 0]) + parts[1].log_prob(value[:, 1])
            torch.testing.assert_close(distribution.log_prob(value), expected)
            torch.testing.assert_close(distribution.log_prob(value.expand(3, 2, 2)), expected.expand(3, 2))
            torch.testing.assert_close(distribution.entropy(), parts[0].entropy() + parts[1].entropy())
            assert torch.equal(distribution.mode, torch.stack([part.mode for part in parts], 1))

    def test_samples_are_actions_of_the_space(self) -> None:
        samples = ProductOfCategoricals(torch.zeros(4, 6), [1, 2, 3]).sample((100,))
        assert samples.shape == (100, 4, 3) and samples.dtype == torch.int64
        assert samples.amin((0, 1)).tolist() == [0, 0, 0] and samples.amax((0, 1)).tolist() == [0, 1, 2]

    def test_a_mask_holds_all_choices_and_one_that_allows_nothing_allows_everything(self) -> None:
        distribution = masked(ProductOfCategoricals(self.PARTS), [0, 0, 1, 0, 1])
        probs = distribution.choices.probs
        assert isinstance(distribution, ProductOfCategoricals)
        torch.testing.assert_close(probs[:, 0, :2], torch.softmax(self.PARTS[0], 1))
        assert (probs[:, 1, 1] == 0).all() and (probs[:, 0, 2] == 0).all()
        assert set(distribution.sample((100,))[..., 1].unique().tolist()) == {0, 2}
        with pytest.raises(ValueError, match=r"action_mask has shape \(3,\), expected \(2, 5\) or \(5,\)"):
            distribution.masked([1, 0, 1])

    def test_gradients_are_finite(self) -> None:
        logits = torch.cat(self.PARTS, 1).requires_grad_()
        distribution = ProductOfCategoricals(logits, [2, 3]).masked([1, 0, 1, 0, 1])
        divergence = kl_divergence(distribution, ProductOfCategoricals(logits.detach(), [2, 3]))
        (distribution.log_prob(torch.tensor([[0, 2], [0, 0]])) + distribution.entropy() + divergence).sum().backward()
        assert logits.grad is not None and torch.isfinite(logits.grad).all()

    @pytest.mark.parametrize(
        ("logits", "nvec", "message"),
        [
            (torch.zeros(1, 5), None, "nvec must be passed if logits is one tensor"),
            ([torch.zeros(1, 5)], [5], "nvec must be passed if logits is one tensor, and only then"),
            (torch.zeros(1, 5), [2, 2], r"nvec is \(2, 2\), expected positive numbers that add up to 5"),
            (torch.zeros(1, 5), [5, 0], r"nvec is \(5, 0\), expected positive"),
            (torch.zeros(1, 0), [], r"nvec is \(\), expected positive"),
        ],
    )
    def test_sizes_that_do_not_fit_are_refused(self, logits: object, nvec: object, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ProductOfCategoricals(logits, nvec)  # type: ignore[arg-type]
