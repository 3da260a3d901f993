"""What `offline_scores.py` and `offline_speed.py` train: settings, and the same algorithms of both libraries."""
