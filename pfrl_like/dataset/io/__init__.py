"""Formats of datasets: HDF5, npz, Minari, pandas."""
