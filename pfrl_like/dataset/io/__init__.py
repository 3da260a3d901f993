"""Files and tables of datasets: HDF5, npz, Minari, pandas."""
