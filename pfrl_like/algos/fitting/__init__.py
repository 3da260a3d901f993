"""Parts of estimators: hyperparameters, networks, fitting, files."""
