"""Losses of TD errors, return distributions and policies; targets; the reduction of losses to a scalar."""

from collections.abc import Sequence

import torch
from torch import Tensor


def huber(error: Tensor) -> Tensor:
    """Compute the Huber loss: e**2 / 2 if |e| <= 1, else |e| - 1/2 (Huber 1964, doi:10.1214/aoms/1177703732).

    The derivative is the error clipped to [-1, 1]. The backward pass computes only this derivative, which is faster
    than `torch.nn.functional.huber_loss`. Second derivatives are wrong.

    Args:
        error: Errors e, any shape.

    Returns:
        Same shape.
    """
    clipped = error.detach().clamp(-1, 1)
    return clipped * error.sub(clipped, alpha=0.5)


def square(error: Tensor) -> Tensor:
    """Return error**2, any shape."""
    return error * error


def half_square(error: Tensor) -> Tensor:
    """Return error**2 / 2, any shape."""
    return 0.5 * error * error


def expectile(error: Tensor, tau: float) -> Tensor:
    """Compute the asymmetric squared loss |tau - 1{error < 0}| * error**2.

    The prediction with the smallest mean loss is the tau-expectile of the targets (Newey and Powell 1987,
    doi:10.2307/1911031; arXiv:2110.06169, section 4).

    Args:
        error: Target minus prediction, any shape.
        tau: Weight of positive errors, in (0, 1). With 1/2, the loss is half the squared error.

    Returns:
        Same shape.
    """
    weight = torch.where(error.detach() < 0, 1 - tau, tau).to(error.dtype)
    return weight * error * error


def quantile_huber(prediction: Tensor, target: Tensor, tau: Tensor, mass: Tensor | None = None) -> Tensor:
    """Compute the quantile Huber loss with threshold 1 (arXiv:1710.10044, eq. 9, 10 and Algorithm 1).

    The loss of an error u = target - prediction is |tau - 1{u < 0}| * huber(u). The losses are summed over predictions
    and averaged over targets.

    Args:
        prediction: Predicted quantiles, [B, N].
        target: Samples or quantiles of the target, [B, M].
        tau: Fractions of the predicted quantiles, in (0, 1), [B, N] or [N].
        mass: Probability of each target, [B, M], used as its weight in the average. If None, all targets have the
            weight 1 / M.

    Returns:
        [B].
    """
    loss = quantile_huber_of_pairs(prediction, target, tau).sum(1)
    return loss.mean(1) if mass is None else torch.linalg.vecdot(loss, mass)


def quantile_huber_of_pairs(prediction: Tensor, target: Tensor, tau: Tensor) -> Tensor:
    """Compute the quantile Huber loss (see `quantile_huber`) of each pair of prediction and target.

    Args:
        prediction: Predicted quantiles, [B, N].
        target: Samples or quantiles of the target, [B, M].
        tau: Fractions of the predicted quantiles, in (0, 1), [B, N] or [N].

    Returns:
        [B, N, M].
    """
    error = target.unsqueeze(1) - prediction.unsqueeze(2)
    weight = (tau.unsqueeze(-1) - (error.detach() < 0).to(error.dtype)).abs()
    return weight * huber(error)


def bootstrap_weight(like: Tensor) -> Tensor:
    """Return random weights, 0 or 2, in the shape of `like` (double-or-nothing bootstrap, arXiv:1106.2125)."""
    return torch.randint_like(like, 2) * 2


def weighted_mean(loss: Tensor, weight: Tensor | None = None, accumulator: str = "mean") -> Tensor:
    """Return the mean or the sum of a minibatch's losses, each multiplied by its importance weight.

    The mean is the sum divided by the number of rows, not by the sum of the weights (Schaul et al. 2015,
    arXiv:1511.05952, Algorithm 1 as in PFRL).

    Args:
        loss: Loss of each row, [B].
        weight: Importance weights, [B]. If None, every row has the weight 1.
        accumulator: Reduction of the losses, "mean" or "sum".

    Returns:
        A scalar.

    Raises:
        ValueError: If `accumulator` is not "mean" or "sum".
    """
    if weight is not None:
        loss = loss * weight
    if accumulator == "mean":
        return loss.mean()
    if accumulator == "sum":
        return loss.sum()
    raise ValueError(f"accumulator is {accumulator!r}, expected 'mean' or 'sum'")


def compute_value_loss(y: Tensor, t: Tensor, clip_delta: bool = True, batch_accumulator: str = "mean") -> Tensor:
    """Return the mean or sum of a minibatch's losses: the Huber loss, or half of the squared error.

    Args:
        y: Predictions, [B] or [B, 1].
        t: Targets, [B] or [B, 1].
        clip_delta: True for the Huber loss, False for half the squared error.
        batch_accumulator: Reduction of the losses over the minibatch, "mean" or "sum".

    Raises:
        ValueError: If `batch_accumulator` is not "mean" or "sum".
    """
    return weighted_mean(_losses(y, t, clip_delta), None, batch_accumulator)


def compute_weighted_value_loss(
    y: Tensor, t: Tensor, weights: Tensor, clip_delta: bool = True, batch_accumulator: str = "mean"
) -> Tensor:
    """Compute the loss of `compute_value_loss`, with the loss of each row multiplied by an importance weight.

    "mean" is the sum of the weighted losses divided by B. The weights, [B], may be on any device.
    """
    losses = _losses(y, t, clip_delta)
    return weighted_mean(losses, weights.to(losses.device), batch_accumulator)


def _losses(y: Tensor, t: Tensor, clip_delta: bool) -> Tensor:
    error = y.reshape(-1) - t.reshape(-1)
    return huber(error) if clip_delta else half_square(error)


def exponential_weight(advantage: Tensor, temperature: float, max_weight: float) -> Tensor:
    """Compute the weights of actions in advantage-weighted regression, min(exp(A / T), w).

    A policy that imitates actions with these weights maximises the advantage under a limit of the divergence from the
    behaviour policy (arXiv:1910.00177, section 3; arXiv:2006.09359, section 4; arXiv:2110.06169, section 4.3).

    Args:
        advantage: A, any shape. No gradient flows into it.
        temperature: T, positive. With a smaller temperature, the weights depend more on the advantage.
        max_weight: w, positive.

    Returns:
        Same shape.
    """
    return (advantage.detach() / temperature).exp().clamp(max=max_weight)


def over_mean_size(value: Tensor) -> Tensor:
    """Divide values [N] by their detached mean absolute value (arXiv:2106.06860).

    If all values are 0, the result is 0.
    """
    return value / value.detach().abs().mean().clamp_min(1e-8)


def squared_distance(action: Tensor, other: Tensor) -> Tensor:
    """Return the squared Euclidean distances, [N], between two batches of actions, [N, ...].

    Raises:
        ValueError: If the shapes of the actions differ.
    """
    _check_same_shape(action, other)
    return (action - other).square().flatten(1).sum(1)


def _check_same_shape(action: Tensor, other: Tensor) -> None:
    if action.shape != other.shape:  # broadcasting would hide the error
        raise ValueError(f"the actions have shapes {tuple(action.shape)} and {tuple(other.shape)}, expected equal ones")


#: For each kernel, a function of the difference of two vectors, [..., A]. Its result, summed over A, is the distance d.
_DISTANCES = {"gaussian": torch.square, "laplacian": torch.abs}
#: Number added before the square root. Without it, the derivative would be infinite for two equal samples.
_LEAST_SQUARE = 1e-6


def maximum_mean_discrepancy(x: Tensor, y: Tensor, sigma: float, kernel: str = "gaussian") -> Tensor:
    """Compute the distance of two samples, sqrt(mean k(x, x') - 2 mean k(x, y) + mean k(y, y')).

    The kernel is k = exp(-d / (2 sigma)). d is the squared Euclidean distance ("gaussian") or the sum of the absolute
    differences ("laplacian"), as in the code of arXiv:1906.00949. Sources: Gretton et al. 2012, eq. 2 and 5;
    arXiv:1906.00949, section 5.

    Args:
        x: n vectors for each of N rows, [n, N, A].
        y: m vectors for each of N rows, [m, N, A].
        sigma: Width of the kernel, positive.
        kernel: "gaussian" or "laplacian".

    Returns:
        [N].

    Raises:
        ValueError: If N or A differ.
    """
    _check_same_shape(x[0], y[0])

    def mean_kernel(first: Tensor, second: Tensor) -> Tensor:
        distance = _DISTANCES[kernel](first.unsqueeze(0) - second.unsqueeze(1)).sum(-1)
        return (-distance / (2 * sigma)).exp().mean((0, 1))

    square = mean_kernel(x, x) - 2 * mean_kernel(x, y) + mean_kernel(y, y)
    return (square.clamp_min(0) + _LEAST_SQUARE).sqrt()


def trust_region_gradient(gradient: Tensor, kl_gradient: Tensor, delta: float) -> Tensor:
    """Project gradients so that a step along them increases a divergence by at most delta (arXiv:1611.01224, eq. 12).

    The projection is z = g - max(0, (k . g - delta) / |k|**2) k. It minimises |g - z|**2 / 2 subject to k . z <= delta.

    Args:
        gradient: Gradient g of the objective with respect to the statistics of each distribution, [N, P].
        kl_gradient: Gradient k of the divergence from the reference distribution, [N, P].
        delta: Upper bound of k . z.

    Returns:
        z, [N, P]. In rows in which k is 0, z is g.
    """
    excess = (torch.linalg.vecdot(kl_gradient, gradient) - delta).clamp_min(0.0)
    square = torch.linalg.vecdot(kl_gradient, kl_gradient)
    factor = torch.where(square > 0, excess / square, 0.0)
    return gradient - factor.unsqueeze(-1) * kl_gradient


def actor_critic_loss(
    log_prob: Tensor,
    advantage: Tensor,
    entropy: Tensor,
    value: Tensor,
    returns: Tensor,
    *,
    pi_loss_coef: float,
    v_loss_coef: float,
    entropy_coef: float,
) -> Tensor:
    """Compute -c_pi A log pi(a | s) + c_v (R - V)**2 - c_H H for each step (arXiv:1602.01783, section 4).

    Args:
        log_prob: log pi(a | s), [N].
        advantage: A, [N]. No gradient flows into it.
        entropy: H, [N].
        value: V, [N].
        returns: R, [N]. No gradient flows into it.
        pi_loss_coef: c_pi.
        v_loss_coef: c_v.
        entropy_coef: c_H.

    Returns:
        [N].
    """
    return v_loss_coef * (returns - value).square() - pi_loss_coef * advantage * log_prob - entropy_coef * entropy


def clipped_surrogate(ratio: Tensor, advantage: Tensor, clip_eps: float) -> Tensor:
    """Compute min(r A, clip(r, 1 - eps, 1 + eps) A), PPO's objective for each step (arXiv:1707.06347, eq. 7).

    Args:
        ratio: Importance ratio r: probability of the action under the policy, divided by its probability under the
            behaviour policy, [N].
        advantage: Advantage A of the action, [N].
        clip_eps: eps. The objective does not increase further if r differs from 1 by more than eps.

    Returns:
        [N].
    """
    # The objective is at most (1 + eps) A if A is positive, and at most (1 - eps) A if A is negative.
    return (ratio * advantage).clamp(max=torch.add(advantage, advantage.abs(), alpha=clip_eps))


def estimated_kl(log_ratio: Tensor) -> Tensor:
    """Estimate the KL divergence of the policy from the behaviour policy: mean of r - 1 - log r, a scalar.

    The estimate is unbiased and not negative (Schulman 2020, joschu.net/blog/kl-approx.html).

    Args:
        log_ratio: log r, the log-probability of each action minus its log-probability under the behaviour policy, [N].
    """
    return (log_ratio.exp() - 1 - log_ratio).mean()


def standardized(advantage: Tensor, weight: Tensor | None = None) -> Tensor:
    """Scale advantages to mean 0 and population standard deviation 1. The divisor is the deviation plus 1e-8.

    Args:
        advantage: Advantages, [N].
        weight: Weights of the advantages in mean and standard deviation, [N], at least 0. None sets all weights to 1.
    """
    if weight is None:
        std, mean = torch.std_mean(advantage, correction=0)
        return (advantage - mean) / (std + 1e-8)
    weight = weight / weight.sum()
    deviation = advantage - (weight * advantage).sum()
    return deviation / ((weight * deviation.square()).sum().sqrt() + 1e-8)


def explained_variance(value: Tensor, returns: Tensor) -> Tensor:
    """Return 1 - Var(returns - value) / Var(returns), a scalar. It is NaN if all returns are equal.

    Args:
        value: Predicted returns, [N].
        returns: True returns, [N].
    """
    spread = returns.var(correction=0)
    return torch.where(spread > 0, 1 - (returns - value).var(correction=0) / spread, torch.nan)


def td_target(reward: Tensor, discount: Tensor, next_value: Tensor) -> Tensor:
    """Compute the one- or n-step target `reward + discount * next_value` (Sutton and Barto 2018, eq. 6.2, 7.1).

    Args:
        reward: Sum of the n discounted rewards, shape [B], float32.
        discount: gamma**n, or 0 if the n steps ended in a terminal state, shape [B].
        next_value: Value of the state after the n steps, shape [B].

    Returns:
        Targets, shape [B]. Gradients flow into every argument. The caller detaches the targets.
    """
    return torch.addcmul(reward, discount, next_value)


def advantage_learning_target(
    reward: Tensor, discount: Tensor, next_value: Tensor, action_gap: Tensor, alpha: float
) -> Tensor:
    """Compute the target of advantage learning, `td_target - alpha * action_gap` (arXiv:1512.04860, T_AL).

    Args:
        reward: Sum of the n discounted rewards, shape [B], float32.
        discount: gamma**n, or 0 if the n steps ended in a terminal state, shape [B].
        next_value: Value of the state after the n steps, shape [B].
        action_gap: max_b Q(s, b) - Q(s, a) for the executed action a, shape [B].
        alpha: Weight of the gap. With weights in [0, 1), the optimal policy stays the same.

    Returns:
        Targets, shape [B].
    """
    return td_target(reward, discount, next_value) - alpha * action_gap


def persistent_advantage_learning_target(
    reward: Tensor, discount: Tensor, next_value: Tensor, action_gap: Tensor, next_action_gap: Tensor, alpha: float
) -> Tensor:
    """Compute the target of persistent advantage learning (Bellemare et al. 2016, arXiv:1512.04860, section 4).

    The target is `max(td_target - alpha * action_gap, td_target - alpha * next_action_gap)`: the smaller gap, times
    alpha, is subtracted. In a terminal state all actions have the value 0, so its gap is 0.

    Args:
        reward: Sum of the n discounted rewards, shape [B], float32.
        discount: gamma**n, or 0 if the n steps ended in a terminal state, shape [B].
        next_value: Value of the state after the n steps, shape [B].
        action_gap: max_b Q(s, b) - Q(s, a) for the executed action a, shape [B].
        next_action_gap: max_b Q(s', b) - Q(s', a) for the same action a, shape [B]. Infinite if a is masked in s'.
        alpha: Weight of the gap. With weights in [0, 1), the optimal policy stays the same.

    Returns:
        Targets, shape [B].
    """
    gap = torch.minimum(action_gap, next_action_gap.masked_fill(discount == 0, 0.0))
    return td_target(reward, discount, next_value) - alpha * gap


def dynamic_policy_programming_target(
    reward: Tensor, discount: Tensor, next_mean: Tensor, value: Tensor, mean: Tensor
) -> Tensor:
    """Compute the target of dynamic policy programming, `value + reward + discount * next_mean - mean`.

    Source: Azar et al. 2012, arXiv:1004.2027, in which the values are called action preferences.

    Args:
        reward: Sum of the n discounted rewards, shape [B], float32.
        discount: gamma**n, or 0 if the n steps ended in a terminal state, shape [B].
        next_mean: M Q(s'), the mean of Q(s', .) under the probabilities softmax(eta * Q(s', .)), shape [B].
        value: Q(s, a) for the executed action a, shape [B].
        mean: M Q(s), the mean of Q(s, .) under the probabilities softmax(eta * Q(s, .)), shape [B].

    Returns:
        Targets, shape [B].
    """
    return value + td_target(reward, discount, next_mean) - mean


def truncated_mixture(quantiles: Sequence[Tensor], n_dropped: int) -> Tensor:
    """Return the quantiles of all critics, sorted, without the largest ones (arXiv:2005.04269, eq. 10 and 11).

    Args:
        quantiles: Quantiles of each of C critics, [B, N].
        n_dropped: Number of dropped quantiles per critic, less than N. The C * n_dropped largest quantiles are dropped.

    Returns:
        [B, C * (N - n_dropped)], ascending.

    Raises:
        ValueError: If `n_dropped` is not less than N.
    """
    together = torch.cat(list(quantiles), dim=1)
    kept = together.shape[1] - n_dropped * len(quantiles)
    if kept < 1:
        n_quantiles = quantiles[0].shape[1]
        raise ValueError(f"n_dropped is {n_dropped}, expected less than the {n_quantiles} quantiles of a critic")
    return together.sort(dim=1).values[:, :kept]


def categorical_projection(z: Tensor, target_values: Tensor, probs: Tensor) -> Tensor:
    """Project distributions onto evenly spaced atoms (Bellemare et al. 2017, arXiv:1707.06887, eq. 7, Algorithm 1).

    The probability (mass) at a value is split between the two adjacent atoms, and the nearer atom gets more mass. If a
    value equals an atom, the atom gets all of its mass. Mass at values outside the range of the atoms is assigned to
    the first or last atom.

    Args:
        z: Atoms, ascending and evenly spaced, [N], N at least 2.
        target_values: Values that have mass, [B, M].
        probs: Mass at each value, [B, M].

    Returns:
        Mass at each atom, [B, N]. The sum of a row is the sum of the same row of `probs`.
    """
    n_atoms = z.shape[0]
    position = (target_values.clamp(z[0], z[-1]) - z[0]) * ((n_atoms - 1) / (z[-1] - z[0]))
    # The index is at most n_atoms - 2, because the last atom is the upper end of the last interval. If a value is NaN,
    # its index is clamped, too, and its mass stays NaN.
    index = position.long().clamp(0, n_atoms - 2)
    upper_mass = probs * (position - index).clamp(0, 1)  # rounding may exceed the interval
    projected = upper_mass.new_zeros(probs.shape[0], n_atoms)
    return projected.scatter_add(1, index, probs - upper_mass).scatter_add(1, index + 1, upper_mass)


def even_fractions(n: int, like: Tensor) -> Tensor:
    """Return the fractions (i + 0.5) / n. Their quantiles best approximate a distribution (arXiv:1710.10044, lemma 2).

    Args:
        n: Number of fractions.
        like: Tensor that defines the dtype and device of the result.

    Returns:
        [n].
    """
    return (torch.arange(n, dtype=like.dtype, device=like.device) + 0.5) / n
