import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from pfrl_like.d3rlpy.algos import DQNConfig
from pfrl_like.d3rlpy.models import EncoderFactory, VectorEncoderFactory, register_encoder_factory
from pfrl_like.d3rlpy.preprocessing import (
    MinMaxObservationScaler,
    PixelObservationScaler,
    StandardObservationScaler,
    TupleObservationScaler,
)
from pfrl_like.d3rlpy.serializable import Config, register
from pfrl_like.errors import CheckpointError


class Family(Config, family=True):
    """Base class of a family of configs."""


@dataclasses.dataclass
class Registered(Family):
    size: int

    @staticmethod
    def get_type() -> str:
        return "registered"


@dataclasses.dataclass
class Owner(Config):
    part: Family | None = None
    parts: list[Family] = dataclasses.field(default_factory=list)


def stored(**fields: Any) -> str:
    return json.dumps(fields)


def test_a_registered_class_is_found_by_its_name() -> None:
    register(Family, Registered)
    text = Owner(Registered(3), [Registered(4)]).serialize()
    assert json.loads(text)["part"] == {"type": "registered", "params": {"size": 3}}
    assert Owner.deserialize(text) == Owner(Registered(3), [Registered(4)])


def test_a_name_is_looked_up_and_not_imported() -> None:
    with pytest.raises(ValueError, match=r"EncoderFactory has the type 'os\.system', expected one of .*'vector'"):
        DQNConfig.deserialize(stored(encoder_factory={"type": "os.system", "params": {}}))


@pytest.mark.parametrize("value", [1, None, {"type": "vector"}, {"type": "vector", "params": 1}])
def test_a_config_that_is_no_typed_dict_is_rejected(value: Any) -> None:
    with pytest.raises(ValueError, match='expected a dict of "type" and "params"'):
        DQNConfig.deserialize(stored(encoder_factory=value))


def test_only_an_optional_config_may_be_absent() -> None:
    none = {"type": "none", "params": {}}
    assert DQNConfig.deserialize(stored(reward_scaler=none)).reward_scaler is None
    with pytest.raises(ValueError, match="EncoderFactory has the type 'none'"):
        DQNConfig.deserialize(stored(encoder_factory=none))


def test_a_missing_field_has_its_default_and_an_unknown_field_is_ignored_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="VectorEncoderFactory has no use_dense: these values"):
        loaded = VectorEncoderFactory.deserialize(stored(hidden_units=[3], use_dense=True))
    assert loaded == VectorEncoderFactory([3])


def test_text_that_is_no_json_dict_is_rejected() -> None:
    for text in ("[1]", "{", '{"gamma": NaN}'):
        with pytest.raises(CheckpointError):
            DQNConfig.deserialize(text)


def test_registering_checks_class_and_name() -> None:
    class Nameless(EncoderFactory):
        """Factory without a name."""

    class Taken(EncoderFactory):
        """Factory with the name of another factory."""

        @staticmethod
        def get_type() -> str:
            return "vector"

    with pytest.raises(TypeError, match="expected a subclass of EncoderFactory"):
        register_encoder_factory(DQNConfig)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Nameless has no name for files"):
        register_encoder_factory(Nameless)
    with pytest.raises(ValueError, match="'vector', the name of VectorEncoderFactory"):
        register_encoder_factory(Taken)


def test_arrays_are_lists_in_files() -> None:
    scaler = TupleObservationScaler(
        [StandardObservationScaler(np.array([1.0, 2.0]), np.array([3.0, 4.0])), PixelObservationScaler()]
    )
    config = DQNConfig(observation_scaler=scaler)
    params = json.loads(config.serialize())["observation_scaler"]["params"]["observation_scalers"]
    assert params[0] == {"type": "standard", "params": {"mean": [1.0, 2.0], "std": [3.0, 4.0], "eps": 0.001}}
    loaded = DQNConfig.deserialize(config.serialize()).observation_scaler
    assert isinstance(loaded, TupleObservationScaler) and loaded.built
    np.testing.assert_array_equal(loaded.observation_scalers[0].std, [3.0, 4.0])  # type: ignore[attr-defined]
    assert isinstance(MinMaxObservationScaler([0.0], [1.0]).maximum, np.ndarray)  # type: ignore[arg-type]


def test_a_file_is_read(tmp_path: Any) -> None:
    path = tmp_path / "params.json"
    path.write_text(DQNConfig(gamma=0.5).serialize())
    assert DQNConfig.deserialize_from_file(str(path)) == DQNConfig(gamma=0.5)
