"""pfrl_like: a reinforcement-learning toolkit of composable parts, for online and offline training."""

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pfrl_like import action_value as action_value
    from pfrl_like import agent as agent
    from pfrl_like import agents as agents
    from pfrl_like import algos as algos
    from pfrl_like import augmentation as augmentation
    from pfrl_like import base as base
    from pfrl_like import collections as collections
    from pfrl_like import context as context
    from pfrl_like import dataset as dataset
    from pfrl_like import datasets as datasets
    from pfrl_like import distributions as distributions
    from pfrl_like import dynamics as dynamics
    from pfrl_like import encoders as encoders
    from pfrl_like import env as env
    from pfrl_like import envs as envs
    from pfrl_like import experiments as experiments
    from pfrl_like import explorer as explorer
    from pfrl_like import explorers as explorers
    from pfrl_like import export as export
    from pfrl_like import functions as functions
    from pfrl_like import gpu as gpu
    from pfrl_like import implicit_action_value as implicit_action_value
    from pfrl_like import initializers as initializers
    from pfrl_like import loggers as loggers
    from pfrl_like import metrics as metrics
    from pfrl_like import nn as nn
    from pfrl_like import online as online
    from pfrl_like import ope as ope
    from pfrl_like import optimizers as optimizers
    from pfrl_like import policies as policies
    from pfrl_like import policy as policy
    from pfrl_like import preprocessing as preprocessing
    from pfrl_like import q_function as q_function
    from pfrl_like import q_functions as q_functions
    from pfrl_like import replay_buffer as replay_buffer
    from pfrl_like import replay_buffers as replay_buffers
    from pfrl_like import testing as testing
    from pfrl_like import utils as utils
    from pfrl_like import wrappers as wrappers
    from pfrl_like import zoo as zoo
    from pfrl_like.ope import load_learnable as load_learnable
    from pfrl_like.utils.random_seed import seed as seed
    from pfrl_like.zoo import load_agent as load_agent
    from pfrl_like.zoo import make as make

#: The public modules of this package.
_MODULES = {module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")}
#: The modules of the functions that can be imported from this package.
_FUNCTIONS = {"load_agent": "zoo", "load_learnable": "ope", "make": "zoo", "seed": "utils.random_seed"}
#: Modules whose classes an error about an unknown name names.
_OF_CLASSES = ("agents", "replay_buffers", "explorers", "q_functions", "policies")


def __getattr__(name: str) -> Any:
    """Import a public module at its first use, so that a worker process loads only the modules that it needs."""
    if name in _MODULES:
        return importlib.import_module(f"pfrl_like.{name}")
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(f"pfrl_like.{_FUNCTIONS[name]}"), name)
    if name[:1].isupper():  # a class; no other name imports anything
        from pfrl_like.utils.old_names import missing_name

        modules = {f"pfrl_like.{each}": importlib.import_module(f"pfrl_like.{each}") for each in _OF_CLASSES}
        hint = next((f": use {path}.{name}" for path, each in modules.items() if name in each.__all__), "")
        raise missing_name(__name__, name, hint)
    raise AttributeError(f"module 'pfrl_like' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, *_FUNCTIONS])
