import copy
import dataclasses
import enum
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from pfrl_like.d3rlpy import algos, base, models, ope, optimizers, preprocessing
from pfrl_like.d3rlpy.constants import PositionEncodingType

#: For each class of d3rlpy 2.8.1: its name in files, then [field] or [field, default in words] in order.
FACTS: dict[str, list[Any]] = json.loads(
    (Path(__file__).parents[3] / "data" / "d3rlpy_2_8" / "configs.json").read_text()
)
MODULES = {"algos": algos, "models": models, "ope": ope, "optimizers": optimizers, "preprocessing": preprocessing}
CONFIGS = [path for path in FACTS if path.endswith("Config")]


def class_at(path: str) -> Any:
    module, name = path.split(".")
    return getattr(MODULES[module], name)


def in_words(value: Any) -> str:
    """A default as the facts have it: a literal, a member of an enum, or an object with the defaults of its class."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if dataclasses.is_dataclass(value):
        assert value == type(value)()
        return f"{type(value).__name__}()"
    return repr(value)


def default_of(field: dataclasses.Field[Any]) -> list[str]:
    """The default of a field in words, or nothing for a field without one."""
    if field.default_factory is not dataclasses.MISSING:
        return [in_words(field.default_factory())]
    return [] if field.default is dataclasses.MISSING else [in_words(field.default)]


def as_number(words: list[str]) -> list[Any]:
    """Numbers compare by value, so that 0 is 0.0."""
    try:
        return [float(word) for word in words]
    except ValueError:
        return [words[0]]


@pytest.mark.parametrize("path", FACTS)
def test_a_class_has_the_fields_defaults_and_type_of_d3rlpy(path: str) -> None:
    kind, (type_name, *fields) = class_at(path), FACTS[path]
    assert kind.get_type() == type_name
    own = [[each.name, *as_number(default_of(each))] for each in dataclasses.fields(kind)]
    assert own == [[name, *as_number(default)] for name, *default in fields]


@pytest.mark.parametrize("path", FACTS)
def test_the_docstring_documents_the_fields_in_order(path: str) -> None:
    kind = class_at(path)
    lines = [line.strip() for line in str(kind.__doc__).splitlines() if line.startswith(" " * 8)]
    names = [each.name for each in dataclasses.fields(kind)]
    assert [line.split(":")[0] for line in lines if line.split(":")[0] in names] == names


@pytest.mark.parametrize("path", CONFIGS)
def test_a_config_is_copied_pickled_and_stored_as_json(path: str) -> None:
    config = class_at(path)(batch_size=7)
    shaped = base.LearnableConfigWithShape((3,), 2, config)
    for copied in (
        copy.deepcopy(shaped),
        pickle.loads(pickle.dumps(shaped)),
        base.LearnableConfigWithShape.deserialize(shaped.serialize()),
    ):
        assert copied.config == config and copied.config is not config
        assert type(copied.config) is type(config)
        assert (list(copied.observation_shape), copied.action_size) == ([3], 2)


def test_a_config_is_stored_as_d3rlpy_stores_it() -> None:
    config = algos.DiscreteDecisionTransformerConfig(encoder_factory=models.VectorEncoderFactory([7, 5]))
    stored = config.serialize_to_dict()
    assert stored["reward_scaler"] == {"type": "none", "params": {}}
    assert stored["position_encoding_type"] == "global"
    assert stored["encoder_factory"]["type"] == "vector"
    assert stored["encoder_factory"]["params"]["hidden_units"] == [7, 5]
    assert stored["optim_factory"]["params"]["betas"] == [0.9, 0.999]
    loaded = algos.DiscreteDecisionTransformerConfig.deserialize(config.serialize())
    assert loaded.position_encoding_type is PositionEncodingType.GLOBAL
    assert loaded == config
