"""d3rlpy 2's API on this library: use `import pfrl_like.d3rlpy as d3rlpy`."""

__all__: list[str] = []
