"""A store with values in files and a record of every step, from which it can be rebuilt."""

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
    """Columns with observations and extra columns in files; links, rewards and actions are in memory.

    Args:
        open_file: Function that opens or makes the file of a name.
        on_first: Called before the first step is stored, with the bytes that a row of observations takes in the files.

    Attributes:
        records: Records of the changes since the list was last emptied. The record of a step contains its reward and
            action, and the rows and checksums of its observations and extra values.
    """

    def __init__(self, open_file: Callable[[str], GrowingFile], on_first: Callable[[int], None]) -> None:
        self._open_file = open_file
        self._on_first = on_first
        self.records: list[bytes] = []
        self._numbers: dict[Any, int] = {}  # the number of each environment in records
        self._names: dict[int, Any] = {}
        super().__init__()

    def new_rows(self, name: str) -> Rows:
        """Rows with values in files."""
        return MappedRows(self._open_file, name, self._find_arrays)

    def _find_arrays(self) -> None:
        if self.obs is not None:
            self.plain = self.obs.plain

    @property
    def fields(self) -> list[Field]:
        """The fields in files."""
        further = [extra.field for extra in self.extras.values()]
        return [field for field in (self.obs, *further) if field is not None]

    @property
    def schema(self) -> tuple[int, int]:
        """Number of extra columns and of fields in files; it changes with new columns, which records do not contain."""
        return len(self.extras), len(self.fields)

    def recycle(self) -> None:
        """Free the released rows; the state on disk must no longer refer to them."""
        for rows in self._mapped_rows():
            rows.recycle()

    def keep_only(self, saves: Container[str]) -> None:
        """End the protection of rows by saves that are not among `saves`; `keep_places` began it."""
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
        """Store one step with a record and return its row; the caller has to call `end` at the end of the episode.

        Raises:
            ValueError: If a value has another structure, shape or dtype than in the first step, is no array, or
                `env_id` cannot be written as JSON; nothing is stored.
            TypeError: If the reward is no number.
        """
        if self.obs is None:
            self._refuse_objects({"obs": obs, "action": action})
        self._refuse_objects({name: extra[name] for name in extra if not self._is_known(name)})
        self._refuse_name(env_id)
        before = self.running.get(env_id)
        pending = 0 if before is None else before.pending
        row = super().append(obs, action, reward, next_obs, terminal, env_id, extra)
        if self.plain is not None and self.obs is not None:
            at, next_at = self.obs_row.item(row), self.next_row.item(row)
            if at != pending:
                self.obs.leaves[0].seal(at)
            if next_at != at:
                self.obs.leaves[0].seal(next_at)
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
        """Store one step of each of several environments with records; equals a call of `append` for each.

        Returns:
            The rows, shape [k].

        Raises:
            ValueError: If a value has another structure, shape or dtype than in the first step, is no array, there are
                not k of each, or an `env_id` cannot be written as JSON; nothing is stored.
        """
        columns = {name: extra[name] for name in extra if not self._is_known(name)}
        if self.obs is None:
            columns |= {"obs": obs, "action": action}
        for name, values in columns.items():
            for value in values if isinstance(values, list) else [values]:
                self._refuse_objects({name: value})
        for env_id in env_ids:
            self._refuse_name(env_id)
        rows = super().append_many(obs, action, reward, next_obs, terminal, env_ids, extra)
        for row, env_id in zip(rows.tolist(), env_ids, strict=True):
            self._record_step(row, env_id)
        return rows

    def end(self, env_id: Any) -> None:
        """End the running episode of an environment, with a record."""
        if env_id in self.running:
            self.records.append(_ENV.pack(_END, self._number(env_id)))
        super().end(env_id)

    def set_fields(self, obs: Field | None, action: Field | None) -> None:
        """Set the fields of observations and actions; the first time, `on_first` is called before."""
        if obs is not None and self.obs is None:
            assert isinstance(obs.rows, MappedRows)
            self._on_first(obs.rows.row_bytes)
        super().set_fields(obs, action)

    def _is_known(self, name: str) -> bool:
        return name in self.extras and self.extras[name].field is not None

    def _refuse_objects(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            leaves = structure_of(value)[1]
            if not leaves:
                raise ValueError(f"{name}: got {value!r}, which has no values; a persistent buffer stores arrays")
            for leaf in leaves:
                if leaf is not None and as_array(leaf) is None:
                    raise ValueError(
                        f"{name}: got {describe(leaf)}, which is no array of numbers; a persistent buffer stores "
                        "arrays of one shape: make one of it, or take ReplayBuffer and save(allow_pickle=True)"
                    )

    def _refuse_name(self, env_id: Any) -> None:
        if env_id not in self._numbers and id_to_json(env_id) is None:
            raise ValueError(f"env_id: got {env_id!r}, expected an integer, a string or a tuple of such, for a file")

    # Records

    def forget_names(self) -> None:
        """Forget the numbers of environments; the next records name the environments again."""
        self._numbers.clear()
        self._names.clear()

    def _number(self, env_id: Any) -> int:
        number = self._numbers.get(env_id)
        if number is None:
            number = self._numbers[env_id] = len(self._numbers)
            self._names[number] = env_id
            self.records.append(_ENV.pack(_NAME, number) + json.dumps(id_to_json(env_id)).encode())
        return number

    def _record_step(self, row: int, env_id: Any) -> None:
        assert self.action is not None
        terminal, reward = self.terminal.item(row), self.reward.item(row)
        parts = [_HEAD.pack(_STEP, self._number(env_id), terminal, reward)]
        parts += [leaf.data[row].tobytes() for leaf in self.action.leaves]
        rows = [self.obs_row.item(row), self.next_row.item(row)]
        rows += [extra.index.item(row) for extra in self.extras.values() if extra.field is not None]
        for field, place in zip(self._fields_of_a_step(), rows, strict=True):
            parts.append(_ROW.pack(place))
            parts += [leaf.place(place) for leaf in field.leaves]
        self.records.append(b"".join(parts))

    def _fields_of_a_step(self) -> list[Field]:
        """The fields of the rows that a step refers to: twice the observations, then the extra columns."""
        assert self.obs is not None
        return [self.obs, *self.fields]

    def replay(self, record: bytes, check: bool) -> tuple[Any, int, bool] | None:
        """Repeat the change that a record describes.

        Args:
            record: One of `records`.
            check: Compare the values in the files with their checksums.

        Returns:
            The environment, the row of its new step (0 if its episode ended), and True if that step is terminal; None
            if the record only names an environment.

        Raises:
            ValueError: If the record does not fit the columns, or a value differs from its checksum.
        """
        if record[:1] == _STEP:
            return self._replay_step(record, check)
        if len(record) < _ENV.size or record[:1] not in (_END, _NAME):
            raise ValueError("a record is of no known kind")
        _, number = _ENV.unpack_from(record)
        if record[:1] == _END:
            return self._name_of(number), 0, False
        try:
            env_id = id_from_json(json.loads(record[_ENV.size :]))
        except RecursionError as error:
            raise ValueError("a record is nested too deeply") from error
        if id_to_json(env_id) is None:
            raise ValueError("a record names no environment")
        self._names[number] = env_id
        self._numbers[env_id] = number
        return None

    def _name_of(self, number: int) -> Any:
        if number not in self._names:
            raise ValueError("a record is of an environment without a name")
        return self._names[number]

    def _replay_step(self, record: bytes, check: bool) -> tuple[Any, int, bool]:
        if self.obs is None or self.action is None or len(record) != self._record_size():
            raise ValueError("a record of a step has another size than the columns ask for")
        _, number, terminal, reward = _HEAD.unpack_from(record)
        env_id, start = self._name_of(number), _HEAD.size
        row = self.steps.take(1)
        for leaf in self.action.leaves:
            leaf.data[row] = np.frombuffer(record, leaf.dtype, leaf.data[0].size, start).reshape(1, *leaf.shape)
            start += leaf.data[0].nbytes
        places = []
        for field in self._fields_of_a_step():
            (place,) = _ROW.unpack_from(record, start)
            start += _ROW.size
            if not 0 <= place < field.rows.size:
                raise ValueError("a record names a row beyond the end of the files")
            places.append(place)
            at = np.array([place])
            for leaf in field.leaves:
                leaf.take_places(at, np.frombuffer(record, leaf.place_dtype, 1, start))
                start += leaf.place_dtype.itemsize
                if check and place and leaf.damaged(at):
                    raise ValueError("the value of a step is not what was stored")
        at, next_at, *others = places
        if not at or not next_at:
            raise ValueError("a record of a step names no observations")
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
        places = sum(_ROW.size + sum(leaf.place_dtype.itemsize for leaf in field.leaves) for field in fields)
        size: int = _HEAD.size + sum(leaf.data[0].nbytes for leaf in self.action.leaves) + places
        return size
