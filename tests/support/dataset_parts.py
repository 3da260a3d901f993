"""Datasets whose rewards stand in the next row."""

import functools

from pfrl_like.dataset import MDPDataset

next_row = functools.partial(MDPDataset, reward_convention="next_row")
