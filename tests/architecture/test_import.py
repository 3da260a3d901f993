"""Importing the package changes nothing for others."""

import ast
import importlib
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import pfrl_like

PACKAGE = Path(pfrl_like.__file__).parent
#: Folders whose `__init__` offers the parts of its files; the package itself, `utils` and `legacy` load theirs
#: when asked.
FOLDERS = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
OFFERING = sorted(FOLDERS - {"utils", "legacy"})

PROBE = """
import random, sys, warnings
import numpy as np, torch, gymnasium

def state():
    return (
        random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist(), torch.get_default_dtype(),
        torch.get_num_threads(), torch.is_grad_enabled(), np.geterr(), list(warnings.filters),
        sorted(gymnasium.registry), "bool8" in np.__dict__, sys.getrecursionlimit(),
    )

before = state()
import pfrl_like
assert state() == before
loaded = {"gym", "tensorboard", "optuna", "matplotlib", "imageio"} & sys.modules.keys()
assert not loaded, loaded
u = pfrl_like.utils
u.goals.concatenate_goal, u.contexts.evaluating, u.copy_param.copy_grad, u.random.sample_n_k
u.random_seed.set_random_seed, u.recurrent.pack_and_forward, u.stoppable_thread.StoppableThread
pfrl_like.envs.bit_flipping.BitFlipping, pfrl_like.envs.abc
"""


def test_import_changes_no_global_state_loads_nothing_optional_and_offers_the_modules() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" and done.stderr == ""


@pytest.mark.parametrize("name", OFFERING)
def test_what_a_folder_offers_is_in_its_all_which_help_reads(name: str) -> None:
    tree = ast.parse((PACKAGE / name / "__init__.py").read_text())
    ours = [node for node in tree.body if isinstance(node, ast.ImportFrom) and str(node.module).startswith("pfrl_like")]
    offered = importlib.import_module(f"pfrl_like.{name}").__all__
    assert {alias.asname or alias.name for node in ours for alias in node.names} <= {*offered}


def test_help_of_the_datasets_names_them() -> None:
    text = pydoc.render_doc(pfrl_like.datasets, renderer=pydoc.plaintext)
    assert "get_cartpole() -> " in text and "episodes of CartPole-v1" in text
