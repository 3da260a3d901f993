"""Importing the package changes nothing for others."""

import subprocess
import sys

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
"""


def test_modules_of_small_parts_are_reached_through_the_package() -> None:
    code = (
        "import pfrl_like as pfrl; u = pfrl.utils\n"
        "u.goals.concatenate_goal, u.contexts.evaluating, u.copy_param.copy_grad, u.random.sample_n_k\n"
        "u.random_seed.set_random_seed, u.recurrent.pack_and_forward, u.stoppable_thread.StoppableThread\n"
        "pfrl.envs.bit_flipping.BitFlipping, pfrl.envs.abc"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_import_changes_no_global_state_and_loads_nothing_optional() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" and done.stderr == ""
