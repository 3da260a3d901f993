"""Configs: dataclasses that are stored as JSON. A config in a field is stored as {"type": name, "params": fields}.

Names in a file are looked up in tables of classes. No name is imported.
"""

import dataclasses
import json
import typing
import warnings
from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar, Self

import numpy as np

from pfrl_like.storage.json_file import parse_json, read_json
from pfrl_like.utils.checks import levels_to_the_caller

#: Maximum size of a JSON file in bytes. Scalers of images contain one number per pixel.
MAX_JSON = 1 << 28

_NONE: Mapping[str, Any] = {"type": "none", "params": {}}


@dataclasses.dataclass
class Config:
    """Base class of configs, factories and scalers: dataclasses of JSON values, arrays, enums and other configs.

    The keywords of a class statement say how files name the class. `family=True` begins a new table of names, for
    example the table of encoder factories. `type_name` adds the class to the table of its family.
    """

    _types: ClassVar[dict[str, type["Config"]]] = {}
    _type_name: ClassVar[str] = ""

    def __init_subclass__(cls, *, type_name: str = "", family: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        if family:
            cls._types = {}
        if type_name:
            cls._type_name = type_name
            cls._types[type_name] = cls

    @classmethod
    def get_type(cls) -> str:
        """Return the name of the class in files.

        Raises:
            TypeError: If the class has no name.
        """
        if not cls._type_name:
            raise TypeError(f"{cls.__name__} has no name for files: define a static method get_type that returns it")
        return cls._type_name

    def serialize(self) -> str:
        """Return the fields as JSON text."""
        return json.dumps(self.serialize_to_dict())

    def serialize_to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values. Arrays are lists, and enums are their values."""
        hints = typing.get_type_hints(type(self))
        return {each.name: _encoded(getattr(self, each.name), hints[each.name]) for each in dataclasses.fields(self)}

    @classmethod
    def deserialize(cls, serialized_config: str) -> Self:
        """Return the config of a JSON text.

        Args:
            serialized_config: Result of `serialize`.

        Raises:
            CheckpointError: If the text is not a JSON dict.
            ValueError: If a type is unknown. `deserialize_from_dict` documents the other errors.
        """
        return cls.deserialize_from_dict(parse_json(serialized_config.encode(), "the config"))

    @classmethod
    def deserialize_from_dict(cls, dict_config: dict[str, Any]) -> Self:
        """Return the config with these fields. Missing fields have their defaults. Unknown fields are ignored.

        A warning names the unknown fields.

        Args:
            dict_config: Result of `serialize_to_dict`, or values of some fields.

        Raises:
            ValueError: If the type of a config in a field is unknown. The message names the known types.
            TypeError: If a field without a default is missing.
        """
        hints = typing.get_type_hints(cls)
        names = {each.name for each in dataclasses.fields(cls)}
        if unknown := sorted(dict_config.keys() - names):
            text = f"{cls.__name__} has no {', '.join(unknown)}: these values of the file are ignored"
            warnings.warn(text, UserWarning, stacklevel=levels_to_the_caller())
        return cls(**{name: _decoded(dict_config[name], hints[name]) for name in names & dict_config.keys()})

    @classmethod
    def deserialize_from_file(cls, path: str) -> Self:
        """Return the config of a JSON file of at most `MAX_JSON` bytes.

        Args:
            path: Path of the file.

        Raises:
            CheckpointError: If the file cannot be read, or is not a JSON dict.
            ValueError: If a type is unknown. `deserialize_from_dict` documents the other errors.
        """
        return cls.deserialize_from_dict(read_json(path, MAX_JSON))


def register(family: type[Config], cls: Any) -> None:
    """Add a class to the table of its family, so that files can name the class.

    Args:
        family: Base class of the family, for example `EncoderFactory`.
        cls: Subclass of `family`. Its static method `get_type` returns its name in files.

    Raises:
        TypeError: If `cls` is no subclass of `family`, or has no name.
        ValueError: If another class has this name.
    """
    if not (isinstance(cls, type) and issubclass(cls, family)):
        raise TypeError(f"cls is {cls!r}, expected a subclass of {family.__name__}")
    name = cls.get_type()
    known = family._types.get(name, cls)
    if known.__qualname__ != cls.__qualname__:  # a notebook may define a class again
        raise ValueError(f"get_type returns {name!r}, the name of {known.__name__}: choose another name")
    family._types[name] = cls


def _config_class(hint: Any) -> type[Config] | None:
    """Return the class of configs that the type of a field contains, such as A in `A | None` or `list[A]`."""
    if isinstance(hint, type) and issubclass(hint, Config):
        return hint
    return next((found for part in typing.get_args(hint) if (found := _config_class(part))), None)


def _encoded(value: Any, hint: Any = None) -> Any:
    if value is None and _config_class(hint):
        return dict(_NONE)
    if isinstance(value, Config):
        return {"type": value.get_type(), "params": value.serialize_to_dict()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_encoded(item) for item in value] if isinstance(value, list | tuple) else value


def _decoded(value: Any, hint: Any) -> Any:
    if family := _config_class(hint):
        many = isinstance(value, list)
        made = [_config_of(each, family) for each in (value if many else [value])]
        if None in made and type(None) not in typing.get_args(hint):
            raise ValueError(f"the {family.__name__} has the type 'none', expected one of {sorted(family._types)}")
        return made if many else made[0]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    return tuple(value) if typing.get_origin(hint) is tuple else value


def _config_of(value: Any, family: type[Config]) -> Config | None:
    """Return the config for {"type": name, "params": fields}."""
    if not isinstance(value, Mapping) or value.keys() != {"type", "params"} or not isinstance(value["params"], dict):
        raise ValueError(f'the {family.__name__} is stored as {value!r:.80}, expected a dict of "type" and "params"')
    if value == _NONE:
        return None
    if value["type"] not in family._types:
        advice = f"expected one of {sorted(family._types)}; register classes of your own before you load the file"
        raise ValueError(f"the {family.__name__} has the type {value['type']!r:.80}, {advice}")
    return family._types[value["type"]].deserialize_from_dict(value["params"])
