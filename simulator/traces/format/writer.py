"""Writing a trace folder, iteration by iteration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from simulator.errors import SparsimError
from simulator.files import refuse_undecodable_name, write_yaml
from simulator.loading.csv_tables import write_rows
from simulator.models.gradients import Block, Values
from simulator.models.layers import Layer
from simulator.traces.format.trace import FILES, TraceSpec, with_iterations

GROUP_ROWS = 2**17
"""Rows of a row group, at least; an iteration is never cut."""
LEVEL = 19
"""Of zstd, for rounded values of a sample: a tenth smaller than its default level. Values that are not rounded hardly
shrink, and 16 million of a whole model took 7.6 s instead of 0.6 s to be 2 % smaller.
"""


class TraceWriter:
    """Writes a trace; a context manager. Only a trace that was finished can be opened.

    `spec`: describes the trace; its iterations and blocks are replaced by those that are written. `layers`: in forward
    order, as in the blocks of the whole model that are appended. Values are stored times `spec.gradient_scale`, as
    `dtype`, rounded to `spec.mantissa_bits`. What is appended goes to the disk after `GROUP_ROWS` rows at the latest.
    """

    def __init__(
        self,
        folder: Path | str,
        spec: TraceSpec,
        layers: Sequence[Layer],
        dtype: Literal["float16", "float32"] = "float32",
    ) -> None:
        self.folder, self.spec, self.layers, self.dtype = Path(folder), spec, tuple(layers), dtype
        self._iterations: list[int] = []
        self._files: dict[str, pq.ParquetWriter] = {}
        self._waiting: dict[str, list[pa.Table]] = {}
        self._keys: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self._shapes: tuple[tuple[int, ...], ...] = ()
        refuse_undecodable_name(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in (*FILES, "residuals.parquet", "union.csv"):
            (self.folder / name).unlink(missing_ok=True)

    def append(self, block: Block) -> None:
        """Add one iteration of the whole model, with the number of the block.

        Raises SparsimError where it does not follow the last one, or has other coordinates or workers.
        """
        number = block.iteration
        offsets = np.concatenate([[0], np.cumsum(block.numels)[:-1]])
        keys = (block.piece, block.coordinate - offsets[block.piece], block.weight)
        if self._keys is None:
            if block.numels != tuple(layer.numel for layer in self.layers):
                raise SparsimError("a trace's blocks must hold the whole model, layer by layer")
            self._keys, self._shapes = keys, block.shapes
        if any(not np.array_equal(a, b) for a, b in zip(keys, self._keys, strict=True)):
            raise SparsimError(f"iteration {number} holds other coordinates than the first one")
        if number <= (self._iterations[-1] if self._iterations else -1):
            raise SparsimError(f"iteration {number} does not follow {self._iterations[-1:] or 0}")
        # An interruption may come before or after the values are in the file: `close` looks.
        self._iterations.append(number)
        self._write(FILES[2], "iteration", number, block.values, self.spec.gradient_scale)

    def residuals(self, block: int, values: Values) -> None:
        """Add the residual of each worker at the start of a block, (n, m); blocks in order."""
        self._write("residuals.parquet", "block", block, values, self.spec.residual_scale)

    def close(self) -> None:
        """Write layers.csv and, last, trace.yaml."""
        self._close_files()
        if self._keys is None or not (self.folder / FILES[2]).is_file():
            raise SparsimError("a trace needs at least one iteration")
        held = pq.read_metadata(self.folder / FILES[2]).num_rows // len(self._keys[0])
        shapes: list[tuple[str, ...]] = [("x".join(map(str, shape)),) for shape in self._shapes]
        shapes = shapes or [()] * len(self.layers)
        rows = [
            (layer.name, layer.numel, "float32", layer.forward, layer.backward, *shape)
            for layer, shape in zip(self.layers, shapes, strict=True)
        ]
        heading = ("name", "numel", "dtype", "forward_s", "backward_s", "shape")
        write_rows(self.folder / FILES[1], heading[: len(rows[0])], rows)
        data = with_iterations(self.spec, self._iterations[:held]).model_dump(mode="json", exclude_none=True)
        write_yaml(self.folder / FILES[0], data, default_flow_style=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self.close()
        else:
            self._close_files()

    def _close_files(self) -> None:
        for name in tuple(self._waiting):
            self._flush(name)
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _write(self, name: str, group: str, number: int, values: Values, scale: float) -> None:
        if self._keys is None or values.shape != (self.spec.workers, len(self._keys[0])):
            raise SparsimError(f"{group} {number}: expected values of {self.spec.workers} workers at every coordinate")
        bits = self.spec.mantissa_bits if group == "iteration" else None
        with np.errstate(over="ignore"):
            stored = rounded(values * np.float32(scale), bits).astype(self.dtype)
        if not np.isfinite(stored).all():
            raise SparsimError(f"{group} {number}: values times {scale:g} must be finite as {self.dtype}")
        layer, coordinate, weight = self._keys
        columns = {
            group: np.full(len(layer), number, dtype=np.int32),
            "layer": layer.astype(np.int32),
            "coordinate": coordinate.astype(np.int64),
        }
        if group == "iteration":
            columns["weight"] = weight
        columns |= {f"w{worker}": row for worker, row in enumerate(stored)}
        waiting = self._waiting.setdefault(name, [])
        waiting.append(pa.table(columns))
        if len(waiting) * len(layer) >= GROUP_ROWS:
            self._flush(name)

    def _flush(self, name: str) -> None:
        """Write what waits as one row group: small groups have large headers, and share no dictionary."""
        if waiting := self._waiting.pop(name, None):
            table = pa.concat_tables(waiting)
            if name not in self._files:
                # Coordinates increase, and values that are not rounded hardly repeat: both are larger in a dictionary.
                keys = [column for column in table.column_names if column != "coordinate" and not column[1:].isdigit()]
                values = [column for column in table.column_names if column[1:].isdigit()]
                self._files[name] = pq.ParquetWriter(
                    self.folder / name,
                    table.schema,
                    compression="zstd",
                    compression_level=LEVEL if self.spec.mantissa_bits is not None and len(waiting) > 1 else None,
                    use_dictionary=keys if self.spec.mantissa_bits is None else keys + values,
                )
            self._files[name].write_table(table, row_group_size=len(table))


def rounded(values: Values, bits: int | None) -> Values:
    """The nearest numbers with so many bits after the leading one; without `bits`, the values.

    >>> rounded(np.array([1.0, 1.1, 1.2, -3.3], dtype=np.float32), 2).tolist()
    [1.0, 1.0, 1.25, -3.5]
    """
    if bits is None:
        return values
    fraction, exponent = np.frexp(values)
    steps = np.float32(2.0 ** (bits + 1))
    nearest: Values = np.ldexp(np.round(fraction * steps) / steps, exponent)
    return nearest
