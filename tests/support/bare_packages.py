"""The start of a script that imports files of the package without the `__init__` of their folders.

These import torch, which takes seconds in every process.
"""

from pathlib import Path

import pfrl_like

PROLOGUE = f"""
import sys, types
for name in ("pfrl_like", "pfrl_like.utils"):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [{str(Path(pfrl_like.__file__).parents[1])!r} + "/" + name.replace(".", "/")]
"""
