"""Hidden layers that are all alike, by size and number, as arguments of fully connected Q-functions have it."""

from pfrl_like.utils.checks import check_counts


def hidden_sizes_of(n_hidden_channels: int, n_hidden_layers: int) -> list[int]:
    """The sizes of the hidden layers.

    Raises:
        TypeError: If one of the numbers is no integer.
        ValueError: If the size is below 1, or the number below 0.
    """
    check_counts(n_hidden_channels=n_hidden_channels)
    check_counts(least=0, n_hidden_layers=n_hidden_layers)
    return [n_hidden_channels] * n_hidden_layers
