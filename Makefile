# One command each. Without make: the lines below, and README.md.
PYTHON ?= .venv/bin/python

TRUST := $(wildcard $(addprefix benchmarks/,kill_saves.py kill_training.py worker_faults.py soak.py))

.PHONY: test pythons durations slow guide scripts peers fuzz trust lint types format bench

test:
	$(PYTHON) -m pytest -n 2

# While score runs in the background stand still.
durations:
	$(PYTHON) benchmarks/measurement_lock.py $(PYTHON) -m pytest -n 2 --durations=25

slow:
	$(PYTHON) -m pytest -m slow

guide:
	$(PYTHON) -m pytest -m slow tests/examples/test_guide.py

# Printed scripts in processes of their own: all agents, an environment of each family, three seeds.
scripts:
	$(PYTHON) -m pytest -s -m slow tests/unit/zoo/test_scripts.py

# On every Python from 3.11 on that is at hand, each in an environment of its own, in .pythons.
pythons:
	python3 .ci/pythons.py

# PFRL 0.4 and d3rlpy 2.8, whose pins contradict ours and each other's: an environment of its own for each, in .peers.
# PFRL's recurrent PPO makes floats of arrays of one number, which NumPy 2.4 refuses.
peers:
	python3 -m venv .peers/pfrl && .peers/pfrl/bin/python -m pip install -q -c constraints.txt torch==2.13.0 pfrl==0.4.0 packaging
	.peers/pfrl/bin/python -m pip install -q numpy==2.3.5
	python3 -m venv .peers/d3rlpy && .peers/d3rlpy/bin/python -m pip install -q torch==2.13.0 d3rlpy==2.8.1 tensorboardX

# 10,000 changed files, for loaders to read or to refuse.
fuzz:
	$(PYTHON) -m pytest tests/property/test_loaders.py --hypothesis-profile=long --timeout=0

# Everything about files and processes at its full length, hours of it: benchmarks/README.md, "Trust".
trust: fuzz
	$(PYTHON) -m pytest tests/lab -m slow --timeout=3600
	for script in $(TRUST); do $(PYTHON) $$script || exit 1; done

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
