# One command each. Without make: the lines below, and README.md.
PYTHON ?= .venv/bin/python

.PHONY: test slow lint types format bench

test:
	$(PYTHON) -m pytest -n 2

slow:
	$(PYTHON) -m pytest -m slow

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

types:
	$(PYTHON) -m mypy

format:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

bench:
	$(PYTHON) benchmarks/speed.py
	$(PYTHON) benchmarks/scores.py
