"""What estimators are made of: hyperparameters, networks, fitting, files."""
