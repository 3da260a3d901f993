"""Lists the interface of PFRL: modules, exported names, classes, methods, properties and parameters.

PFRL's interpreter runs this file: `.peers/pfrl/bin/python tests/support/probe_pfrl.py tests/data/pfrl_api.json`. It
needs the standard library alone. `signature_of` describes the functions of both libraries.
"""

import ast
import functools
import importlib
import inspect
import json
import pkgutil
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

#: Methods with special names that scripts use.
SPECIAL = ("__init__", "__call__", "__len__", "__getitem__", "__enter__", "__exit__")
#: Private names that scripts import.
PRIVATE = {
    "agents.ddpg": ["_mean_or_nan"],
    "agents.dqn": ["_mean_or_nan", "_batch_reset_recurrent_states_when_episodes_end"],
    "agents.iqn": ["_evaluate_psi_x_with_quantile_thresholds"],
    "agents.ppo": [
        *("_mean_or_nan", "_elementwise_clip", "_compute_explained_variance", "_make_dataset", "_yield_minibatches"),
        *("_add_advantage_and_value_target_to_episode", "_add_advantage_and_value_target_to_episodes"),
        *("_add_log_prob_and_value_to_episodes", "_add_log_prob_and_value_to_episodes_recurrent"),
        *("_limit_sequence_length", "_make_dataset_recurrent"),
        "_yield_subset_of_sequences_with_fixed_number_of_items",
    ],
    "agents.soft_actor_critic": ["_mean_or_nan"],
    "agents.td3": ["_mean_or_nan"],
    "agents.trpo": [
        *("_mean_or_nan", "_flatten_and_concat_variables", "_as_ndarray", "_split_and_reshape_to_ndarrays"),
        *("_replace_params_data", "_hessian_vector_product"),
        *("_collect_first_recurrent_states_of_policy", "_collect_first_recurrent_states_of_vf"),
    ],
    "collections.persistent_collections": ["_ChunkReader", "_ChunkWriter"],
    "collections.prioritized": ["_expand", "_reduce", "_write", "_find"],
    "experiments.evaluator": ["_run_episodes", "_batch_run_episodes"],
    "nn.noisy_chain": ["_map_modules"],
    "replay_buffer": ["_is_sorted_desc_by_lengths"],
    "testing": ["_as_numpy_recursive"],
    "utils.batch_states": ["_to_recursive"],
    "utils.pretrained_models": ["_get_model_directory", "_reporthook"],
    "wrappers.monitor": ["_StatsRecorder"],
}


def name_of(value: Any, package: str) -> str:
    """Path of a function or class, below the package if it is the package's own; "..." for other objects."""
    name = getattr(value, "__qualname__", None)
    if name is None or "<" in name:
        return "..."
    module = value.__module__ or "torch"  # torch's compiled functions have no module
    return f"{module}:{name}".removeprefix(f"{package}.")


def default_of(value: Any, package: str) -> str:
    """A default value as Python's source: the literal, the name of a function or class, or "..."."""
    if isinstance(value, list) and value:  # `sys.argv`
        return "..."
    if value in (float("inf"), float("-inf")):
        return repr(value).replace("inf", "1e999")
    text = repr(value)
    try:
        ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return name_of(value, package).replace(":", ".")
    return text


def signature_of(function: Any, package: str) -> str:
    """Parameters of a function in parentheses, without annotations."""
    parts, keywords_only = [], False
    for each in inspect.signature(function).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not keywords_only:
            parts.append("*")
        keywords_only |= each.kind in (each.VAR_POSITIONAL, each.KEYWORD_ONLY)
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        default = "" if each.default is each.empty else f"={default_of(each.default, package)}"
        parts.append(f"{stars}{each.name}{default}")
    return f"({', '.join(parts)})"


def described(value: Any, package: str) -> str:
    """Description of a member: a function's parameters, "property" or "value"."""
    if isinstance(value, FunctionType | staticmethod | classmethod):
        return signature_of(getattr(value, "__func__", value), package)
    return "property" if isinstance(value, property) else "value"


@functools.cache
def classes_in(module: str) -> dict[str, ast.ClassDef]:
    """The source of the classes of a module."""
    nodes = ast.walk(ast.parse(Path(sys.modules[module].__file__ or "").read_text(encoding="utf-8")))
    return {each.name: each for each in nodes if isinstance(each, ast.ClassDef)}


@functools.cache
def names_set_by(cls: type, method: str | None = None) -> set[str]:
    """Public names that a class, or one method of it, assigns to attributes of `self`."""
    own = classes_in(cls.__module__)[cls.__name__].body
    body = [each for each in own if method in (None, getattr(each, "name", ""))]
    nodes = [each for part in body for each in ast.walk(part) if isinstance(each, ast.Attribute)]
    stored = [each.attr for each in nodes if isinstance(each.ctx, ast.Store) and ast.unparse(each.value) == "self"]
    return {name for name in stored if not name.startswith("_")}


def own_members(cls: type, package: str) -> dict[str, str]:
    """The public members that a class itself defines, and the attributes that its `__init__` sets.

    "value" also describes members that torch gives instead of a later base.
    """
    found = dict.fromkeys(names_set_by(cls, "__init__"), "value")
    for base in cls.__mro__:
        for name in vars(base) if base.__module__.startswith(package) else ():
            definer = next(each for each in cls.__mro__ if name in vars(each))
            if name.startswith("_") and name not in SPECIAL:
                continue
            if definer is cls:
                found[name] = described(vars(cls)[name], package)
            elif not definer.__module__.startswith(package):
                found[name] = "value"
    return found


def assigned_names(module: ModuleType) -> set[str]:
    """Names that the top level of a module's source defines: functions, classes and variables."""
    names = set()
    for node in ast.walk(ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    return names


def interface(package: str) -> dict[str, str]:
    """Description of everything public, keyed by path below the package, as "agents.dqn:DQN.act".

    Descriptions are "module", "class" with the bases within the package, parameters "(self, obs)", "property",
    "value", or, for a name that a package exports, the path of its definition.
    """
    root = importlib.import_module(package)
    found = {f":{name}": "module" for name, value in vars(root).items() if isinstance(value, ModuleType)}
    for info in pkgutil.walk_packages(root.__path__, f"{package}."):
        module = importlib.import_module(info.name)
        path = info.name.removeprefix(f"{package}.")
        found[path] = "module"
        own = assigned_names(module)
        for name, value in vars(module).items():
            if name.startswith("_") and name not in PRIVATE.get(path, []):
                continue
            place = getattr(value, "__module__", "") or ""
            if isinstance(value, type) and place == info.name:
                bases = [name_of(each, package) for each in value.__mro__[1:] if each.__module__.startswith(package)]
                found[f"{path}:{name}"] = " ".join(["class", *bases])
                found |= {f"{path}:{name}.{each}": text for each, text in own_members(value, package).items()}
            elif isinstance(value, FunctionType) and place == info.name:
                found[f"{path}:{name}"] = signature_of(value, package)
            elif info.ispkg and place.startswith(f"{package}."):
                found[f"{path}:{name}"] = name_of(value, package)
            elif name in own and not isinstance(value, type | FunctionType | ModuleType):
                found[f"{path}:{name}"] = "value"
    return found


if __name__ == "__main__":
    text = json.dumps(interface("pfrl"), indent=0, sort_keys=True)
    Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")
