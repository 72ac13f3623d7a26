"""The Parquet files of a trace: read group by group, with every row checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from simulator.errors import InputError, Problem, format_value
from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.records import Record

MAX_PROBLEMS = 20
BATCH_ROWS = 2**16
MAX_RATIO = 100
"""A file may unpack to so many times its size, or to `FREE` bytes: gradients compress little, coordinates well."""
FREE = 2**28
WEIGHT_TOLERANCE = 1e-3
_BUFFER = 2**20
_DAMAGED = (pa.ArrowException, OSError, UnicodeDecodeError)


class Keys(Record):
    """The coordinates of every iteration: layer, position in the layer, elements that each represents, all (m,)."""

    layer: Ints
    coordinate: Ints
    weight: Floats


class TraceTable(Record):
    """A Parquet file of groups (`iteration` or `block`), each with the same coordinates and a column per worker."""

    path: Path
    group: str
    workers: int

    @property
    def names(self) -> list[str]:
        """The columns that identify a row."""
        return [self.group, "layer", "coordinate", *(["weight"] if self.group == "iteration" else [])]

    def groups(self, workers: Sequence[int], with_keys: bool = False) -> Iterator[tuple[int, int, pa.Table]]:
        """Number, first row (from 1) and rows of each group, which may span row groups of the file.

        `with_keys`: with the columns that identify a row, besides the values of `workers`. Raises InputError where the
        file is damaged.
        """
        keys = self.names if with_keys else [self.group]
        columns = [*keys, *(f"w{worker}" for worker in workers)]
        pending: list[pa.Table] = []
        number, row = 0, 1
        try:
            file = pq.ParquetFile(self.path, buffer_size=_BUFFER)
            parts = ([part] for part in range(file.metadata.num_row_groups))
            # One row group at a time: given several, the reader would fetch all of them ahead.
            batches = (file.iter_batches(BATCH_ROWS, row_groups=part, columns=columns) for part in parts)
            for batch in chain.from_iterable(batches):
                table = pa.Table.from_batches([batch])
                if not set(columns) <= set(table.column_names):
                    raise self.replaced_error(row)
                if empty := table[self.group].null_count:
                    where = f"{self.path}: column {self.group}"
                    raise InputError(Problem(where, "a whole number in every row", f"{empty} empty"))
                numbers = table[self.group].to_numpy()
                cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
                for start, end in pairwise(cuts) if len(numbers) else ():
                    if pending and numbers[start] != number:
                        count = sum(len(part) for part in pending)
                        yield number, row, _taken(pending)
                        row += count
                    number = int(numbers[start])
                    pending.append(table.slice(start, end - start))
            if pending:
                yield number, row, _taken(pending)
        except _DAMAGED as error:
            raise self._damaged(error) from None

    def replaced_error(self, row: int) -> InputError:
        """The error for rows that are not those that were checked."""
        return InputError(
            Problem(
                self._at(row), "the rows that were checked", "other rows", "was the file replaced while it was read?"
            )
        )

    def _damaged(self, error: Exception) -> InputError:
        got = format_value(str(error).splitlines()[0] if str(error) else type(error).__name__)
        return InputError(Problem(str(self.path), "a readable Parquet file", got, "is it cut short?"))

    def check(
        self, numbers: Sequence[int], numels: Sequence[int], same: Keys | None, problems: list[Problem]
    ) -> Keys | None:
        """Check every row and add to the problems; the coordinates of the groups, None where there are no groups.

        `numbers`: the expected groups, in order; `same`: the expected coordinates, where they are known. Raises
        InputError where the rest cannot be checked, or has too many problems.
        """
        self._check_columns()
        found, last = list[int](), -1
        for number, row, rows in self.groups(range(self.workers), with_keys=True):
            if number <= last:
                where, what = f"{self._at(row)}, column {self.group}", f"rows sorted by {self.group}"
                raise InputError(Problem(where, what, f"{number} after {last}"))
            found.append(number)
            last = number
            if not (wrong := list(self._wrong_cells(row, rows))):
                layer, coordinate = (rows[name].to_numpy().astype(np.int64) for name in ("layer", "coordinate"))
                weight = rows["weight"].to_numpy().astype(float) if self.group == "iteration" else np.zeros(0)
                keys = Keys(layer, coordinate, weight)
                if same is None:
                    wrong += self._wrong_keys(row, keys, np.asarray(numels))
                    same = None if wrong else keys
                else:
                    wrong += self._other_keys(row, keys, same)
            if same is None or len(problems) + len(wrong) >= MAX_PROBLEMS:
                raise InputError(wrong)
            problems += wrong
        if found != list(numbers):
            odd = sorted(set(found) ^ set(numbers))
            got = f"{len(found)} of them, {'without' if odd[0] in numbers else 'with'} {odd[0]}"
            problems.append(Problem(str(self.path), f"the {len(numbers)} {self.group}s of trace.yaml", got))
        return same

    def _at(self, row: int) -> str:
        return f"{self.path}: row {row}"

    def _check_columns(self) -> None:
        try:
            file = pq.ParquetFile(self.path)
            schema, about = file.schema_arrow, file.metadata
            groups = [about.row_group(i) for i in range(about.num_row_groups)]
        except _DAMAGED as error:
            raise self._damaged(error) from None
        held = sum(group.num_rows for group in groups) * (8 * len(self.names) + 4 * self.workers)
        if max(held, sum(group.total_byte_size for group in groups)) > max(FREE, MAX_RATIO * self.path.stat().st_size):
            what, hint = f"at most {MAX_RATIO} times its bytes when unpacked", "is it a decompression bomb?"
            raise InputError(Problem(str(self.path), what, "more", hint))
        problems = list[Problem]()
        for name in [*self.names, *(f"w{worker}" for worker in range(self.workers))]:
            where, count, number = f"{self.path}: column {name}", schema.names.count(name), not name.startswith("w")
            fits = pa.types.is_integer if number else pa.types.is_floating
            if count != 1:
                hint = f"trace.yaml says {self.workers} workers" if name.startswith("w") and name != "weight" else ""
                problems.append(Problem(where, "one such column", f"{count}", hint))
            elif not fits(schema.field(name).type):
                what = "whole numbers" if number else "floating-point numbers"
                problems.append(Problem(where, what, str(schema.field(name).type)))
        if problems:
            raise InputError(problems[:MAX_PROBLEMS])

    def _wrong_cells(self, first: int, rows: pa.Table) -> Iterator[Problem]:
        for name in rows.column_names:
            column = rows[name]
            empty = column.is_null().to_numpy() if column.null_count else np.zeros(0, dtype=bool)
            bad = empty if not name.startswith("w") or empty.any() else _not_float32(column)
            if bad.any():
                at = int(bad.argmax())
                yield Problem(f"{self._at(first + at)}, column {name}", "a finite number", str(column[at].as_py()))

    def _wrong_keys(self, first: int, keys: Keys, numels: Ints) -> Iterator[Problem]:
        layers = len(numels)
        absent = (keys.layer < 0) | (keys.layer >= layers)
        checks = [(absent, "layer", f"a layer from 0 to {layers - 1}")]
        if not absent.any():
            outside = (keys.coordinate < 0) | (keys.coordinate >= numels[keys.layer])
            step = (np.diff(keys.layer), np.diff(keys.coordinate))
            twice = np.concatenate([[False], (step[0] == 0) & (step[1] == 0)])
            back = np.concatenate([[False], (step[0] < 0) | ((step[0] == 0) & (step[1] < 0))])
            checks.append((outside, "coordinate", "a coordinate inside its layer"))
            checks.append((twice, "coordinate", "each coordinate once per iteration"))
            checks.append((back, "coordinate", "rows sorted by layer and coordinate"))
            checks.append((keys.weight < 1 - WEIGHT_TOLERANCE, "weight", "a weight of at least 1"))
        for bad, column, what in checks:
            if bad.any():
                at = int(bad.argmax())
                got = format_value(getattr(keys, column)[at].item())
                yield Problem(f"{self._at(first + at)}, column {column}", what, got)
        if any(bad.any() for bad, column, _ in checks if column != "coordinate"):
            return
        total = np.bincount(keys.layer, weights=keys.weight, minlength=layers)
        for i in np.flatnonzero(np.abs(total - numels) > WEIGHT_TOLERANCE * numels)[:3]:
            what = f"weights that sum to the {numels[i]} elements of layer {i}"
            yield Problem(f"{self.path}: column weight", what, f"{total[i]:.6g}")

    def _other_keys(self, first: int, keys: Keys, same: Keys) -> Iterator[Problem]:
        what = f"the coordinates of the first iteration in every {self.group}"
        if len(keys.layer) != len(same.layer):
            yield Problem(self._at(first), what, f"{len(keys.layer)} of them, not {len(same.layer)}")
            return
        weighed = self.group == "iteration"
        odd = (keys.layer != same.layer) | (keys.coordinate != same.coordinate)
        odd |= keys.weight != same.weight if weighed else False
        if odd.any():
            at = int(odd.argmax())
            got = f"layer {keys.layer[at]}, coordinate {keys.coordinate[at]}"
            got += f", weight {keys.weight[at]:g}" if weighed else ""
            yield Problem(self._at(first + at), what, got)


def _taken(parts: list[pa.Table]) -> pa.Table:
    """The parts as one table, and the list empty: who reads group by group decides how long a group is in memory."""
    table = pa.concat_tables(parts)
    parts.clear()
    return table


def _not_float32(column: pa.ChunkedArray) -> np.ndarray:
    """Where values are NaN, infinite or beyond the range of float32, the type of gradients here."""
    with np.errstate(over="ignore"):
        bad: np.ndarray = ~np.isfinite(column.to_numpy().astype(np.float32))
        return bad
