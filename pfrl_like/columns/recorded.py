"""Columns with values in files. They write a record of each step. The columns can be rebuilt from the records."""

import json
import struct
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns.columns import Columns
from pfrl_like.columns.field import Field
from pfrl_like.columns.frames import GrowingFile, MappedRows
from pfrl_like.columns.leaves import Rows, as_array, describe
from pfrl_like.columns.state import id_from_json, id_to_json
from pfrl_like.columns.steps import Indices, Running
from pfrl_like.columns.structure import structure_of

_STEP, _END, _NAME = b"S", b"E", b"N"
_HEAD = struct.Struct("<cI?d")  # kind, number of the environment, is terminal, reward
_ENV = struct.Struct("<cI")
_ROW = struct.Struct("<q")


class RecordedColumns(Columns):
    """Columns with observations and extra columns in files. Links, rewards and actions are in memory.

    Args:
        open_file: Function that opens or creates the file of a given name.
        on_first: Function called before the first step is stored. Its argument is the size in bytes of one row of
            observations.

    Attributes:
        records: Records of the changes since the list was last emptied. The record of a step contains its reward and
            action, and the rows and checksums of its observations and extra values.
    """

    def __init__(self, open_file: Callable[[str], GrowingFile], on_first: Callable[[int], None]) -> None:
        self._open_file = open_file
        self._on_first = on_first
        self.records: list[bytes] = []
        self._numbers: dict[Any, int] = {}  # the number of each environment in the records
        self._env_ids: dict[int, Any] = {}
        super().__init__()

    def new_rows(self, name: str) -> Rows:
        """Return rows with values in files."""
        return MappedRows(self._open_file, name, self._update_plain)

    def _update_plain(self) -> None:
        if self.obs is not None:
            self.plain = self.obs.plain

    @property
    def fields(self) -> list[Field]:
        """The fields in files."""
        extras = [extra.field for extra in self.extras.values()]
        return [field for field in (self.obs, *extras) if field is not None]

    @property
    def schema(self) -> tuple[int, int]:
        """Number of extra columns and number of fields in files. No record describes a new column, only this number."""
        return len(self.extras), len(self.fields)

    def recycle(self) -> None:
        """Free the released rows. The state on disk must no longer refer to these rows."""
        for rows in self._mapped_rows():
            rows.recycle()

    def keep_only(self, saves: Container[str]) -> None:
        """Remove the protection of rows by all saves that are not in `saves` (see `keep_locators`)."""
        for rows in self._mapped_rows():
            rows.keep_only(saves)

    def _mapped_rows(self) -> Iterator[MappedRows]:
        for rows in (self.obs_rows, *(extra.rows for extra in self.extras.values())):
            assert isinstance(rows, MappedRows)
            yield rows

    # Storing

    def append(
        self, obs: Any, action: Any, reward: Any, next_obs: Any, terminal: bool, env_id: Any, extra: Mapping[str, Any]
    ) -> int:
        """Store one step and its record. Return its row. The caller must call `end` at the end of the episode.

        Raises:
            ValueError: If a value has a different structure, shape or dtype than in the first step, if a value is not
                an array, or if `env_id` cannot be written as JSON. Nothing is stored.
            TypeError: If the reward is not a number.
        """
        if self.obs is None:
            self._check_arrays({"obs": obs, "action": action})
        self._check_arrays({name: extra[name] for name in extra if not self._has_field(name)})
        self._check_env_id(env_id)
        before = self.running.get(env_id)
        pending = 0 if before is None else before.pending
        row = super().append(obs, action, reward, next_obs, terminal, env_id, extra)
        if self.plain is not None and self.obs is not None:
            at, next_at = self.obs_row.item(row), self.next_row.item(row)
            if at != pending:
                self.obs.leaves[0].update_checksum(at)
            if next_at != at:
                self.obs.leaves[0].update_checksum(next_at)
        self._record_step(row, env_id)
        return row

    def append_many(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminal: NDArray[np.bool_],
        env_ids: Sequence[Any],
        extra: Mapping[str, Any],
    ) -> Indices:
        """Store one step of each of several environments. The result is the same as of one `append` per environment.

        Returns:
            The rows, shape [k].

        Raises:
            ValueError: If a value has a different structure, shape or dtype than in the first step, if a value is not
                an array, if the arguments have different lengths, or if an `env_id` cannot be written as JSON. Nothing
                is stored.
        """
        columns = {name: extra[name] for name in extra if not self._has_field(name)}
        if self.obs is None:
            columns |= {"obs": obs, "action": action}
        for name, values in columns.items():
            for value in values if isinstance(values, list) else [values]:
                self._check_arrays({name: value})
        for env_id in env_ids:
            self._check_env_id(env_id)
        rows = super().append_many(obs, action, reward, next_obs, terminal, env_ids, extra)
        for row, env_id in zip(rows.tolist(), env_ids, strict=True):
            self._record_step(row, env_id)
        return rows

    def end(self, env_id: Any) -> None:
        """End the running episode of an environment, and write a record of its end."""
        if env_id in self.running:
            self.records.append(_ENV.pack(_END, self._number(env_id)))
        super().end(env_id)

    def set_fields(self, obs: Field | None, action: Field | None) -> None:
        """Set the fields of observations and actions. Before they are set for the first time, `on_first` is called."""
        if obs is not None and self.obs is None:
            assert isinstance(obs.rows, MappedRows)
            self._on_first(obs.rows.row_bytes)
        super().set_fields(obs, action)

    def _has_field(self, name: str) -> bool:
        return name in self.extras and self.extras[name].field is not None

    def _check_arrays(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            leaves = structure_of(value)[1]
            if not leaves:
                raise ValueError(f"{name}: got {value!r}, which contains no values; a persistent buffer stores arrays")
            for leaf in leaves:
                if leaf is not None and as_array(leaf) is None:
                    advice = "convert it to an array, or use ReplayBuffer and save(allow_pickle=True)"
                    raise ValueError(f"{name}: got {describe(leaf)}, which is not an array of numbers; {advice}")

    def _check_env_id(self, env_id: Any) -> None:
        if env_id not in self._numbers and id_to_json(env_id) is None:
            raise ValueError(f"env_id: got {env_id!r}, expected an integer, a string or a tuple of these")

    # Records

    def clear_env_numbers(self) -> None:
        """Clear the mapping from environments to numbers. The next record of each environment contains its id again."""
        self._numbers.clear()
        self._env_ids.clear()

    def _number(self, env_id: Any) -> int:
        number = self._numbers.get(env_id)
        if number is None:
            number = self._numbers[env_id] = len(self._numbers)
            self._env_ids[number] = env_id
            self.records.append(_ENV.pack(_NAME, number) + json.dumps(id_to_json(env_id)).encode())
        return number

    def _record_step(self, row: int, env_id: Any) -> None:
        assert self.action is not None
        terminal, reward = self.terminal.item(row), self.reward.item(row)
        parts = [_HEAD.pack(_STEP, self._number(env_id), terminal, reward)]
        parts += [leaf.data[row].tobytes() for leaf in self.action.leaves]
        rows = [self.obs_row.item(row), self.next_row.item(row)]
        rows += [extra.index.item(row) for extra in self.extras.values() if extra.field is not None]
        for field, index in zip(self._fields_of_a_step(), rows, strict=True):
            parts.append(_ROW.pack(index))
            parts += [leaf.locator(index) for leaf in field.leaves]
        self.records.append(b"".join(parts))

    def _fields_of_a_step(self) -> list[Field]:
        """Return the fields of the row numbers in a record, in order: obs, next_obs, extra columns."""
        assert self.obs is not None
        return [self.obs, *self.fields]

    def replay(self, record: bytes, check: bool) -> tuple[Any, int, bool] | None:
        """Repeat the change that a record describes.

        Args:
            record: An element of `records`.
            check: True to compare the values in the files with their checksums.

        Returns:
            (environment id, row of its new step, True if the step is terminal). If the record ends an episode, the row
            is 0. If the record only contains an environment id, None.

        Raises:
            ValueError: If the record does not match the columns, or a value does not match its checksum.
        """
        if record[:1] == _STEP:
            return self._replay_step(record, check)
        if len(record) < _ENV.size or record[:1] not in (_END, _NAME):
            raise ValueError("a record is of an unknown kind")
        _, number = _ENV.unpack_from(record)
        if record[:1] == _END:
            return self._env_of(number), 0, False
        try:
            env_id = id_from_json(json.loads(record[_ENV.size :]))
        except RecursionError as error:
            raise ValueError("a record is nested too deeply") from error
        if id_to_json(env_id) is None:
            raise ValueError("a record contains no valid environment id")
        self._env_ids[number] = env_id
        self._numbers[env_id] = number
        return None

    def _env_of(self, number: int) -> Any:
        if number not in self._env_ids:
            raise ValueError("a record refers to an unknown environment")
        return self._env_ids[number]

    def _replay_step(self, record: bytes, check: bool) -> tuple[Any, int, bool]:
        if self.obs is None or self.action is None or len(record) != self._record_size():
            raise ValueError(f"a record of a step has {len(record)} bytes, which does not match the columns")
        _, number, terminal, reward = _HEAD.unpack_from(record)
        env_id, start = self._env_of(number), _HEAD.size
        row = self.steps.take(1)
        for leaf in self.action.leaves:
            leaf.data[row] = np.frombuffer(record, leaf.dtype, leaf.data[0].size, start).reshape(1, *leaf.shape)
            start += leaf.data[0].nbytes
        indices = []
        for field in self._fields_of_a_step():
            (index,) = _ROW.unpack_from(record, start)
            start += _ROW.size
            if not 0 <= index < field.rows.size:
                raise ValueError("a record refers to a row after the end of the files")
            indices.append(index)
            at = np.array([index])
            for leaf in field.leaves:
                leaf.set_locators(at, np.frombuffer(record, leaf.locator_dtype, 1, start))
                start += leaf.locator_dtype.itemsize
                if check and index and leaf.damaged(at):
                    raise ValueError("a stored value of a step has changed: a checksum differs")
        at, next_at, *others = indices
        if not at or not next_at:
            raise ValueError("a record of a step refers to no observations")
        run = self.running.setdefault(env_id, Running())
        self._link([run], row, np.array([reward]), np.array([terminal]), np.array([at]), np.array([next_at]))
        if next_at == at:
            run.pending = 0
            self.lacks_next = self.lacks_next or not terminal
        for extra in self.extras.values():
            extra.index[row] = 0 if extra.field is None else others.pop(0)
        return env_id, row.item(), terminal

    def _record_size(self) -> int:
        assert self.action is not None
        fields = self._fields_of_a_step()
        sizes = sum(_ROW.size + sum(leaf.locator_dtype.itemsize for leaf in field.leaves) for field in fields)
        return int(_HEAD.size + sum(leaf.data[0].nbytes for leaf in self.action.leaves) + sizes)
