"""Functions that shift and scale rewards by their running means, for `env_modifiers.make_reward_filtered`."""

import math


class NormalizedRewardFilter:
    """Subtracts the running mean from rewards and divides them by their running standard deviation.

    The result is scale * (r - m) / sqrt(min(v, eps)), with the running mean m and the running variance v = m2 - m**2.
    m and m2 are the exponential moving averages of r and r**2, beginning with 0 and including the new reward. eps is
    the maximum of the variance, as in PFRL. If v is 0, all rewards so far were 0, and the result is 0.

    Args:
        tau: Weight of a new reward in the running means, from 0 to 1.
        scale: Factor by which the results are multiplied.
        eps: Maximum of the variance that the rewards are divided by.

    Attributes:
        average_reward: m.
        average_reward_squared: m2.
    """

    def __init__(self, tau: float = 1e-3, scale: float = 1, eps: float = 1e-1) -> None:
        self.tau, self.scale, self.eps = tau, scale, eps
        self.average_reward = self.average_reward_squared = 0.0

    def __call__(self, reward: float) -> float:
        """Update the running means with a reward and return the normalised reward."""
        self.average_reward += self.tau * (reward - self.average_reward)
        self.average_reward_squared += self.tau * (reward**2 - self.average_reward_squared)
        variance = min(self.average_reward_squared - self.average_reward**2, self.eps)
        return self.scale * (reward - self.average_reward) / math.sqrt(variance) if variance > 0 else 0.0


class AverageRewardFilter:
    """Subtracts the running mean, which includes the new reward, from rewards.

    Args:
        tau: Weight of a new reward in the running mean, from 0 to 1.

    Attributes:
        average_reward: The running mean, initially 0.
    """

    def __init__(self, tau: float = 1e-3) -> None:
        self.tau = tau
        self.average_reward = 0.0

    def __call__(self, reward: float) -> float:
        """Update the running mean with a reward and return the reward minus the running mean."""
        self.average_reward += self.tau * (reward - self.average_reward)
        return reward - self.average_reward
