"""Sweeps: every point of a grid is predicted and stored as soon as it is finished; the result is one table.

A sweep file names a `base` scenario and the keys that `vary`:

    base: quickstart
    vary:
      sparsifier: [topk, {kind: dgc, warmup: [25 %]}]
      sparsifier.density: {from: 0.01 %, to: 50 %, scale: log, points: 13}
      cluster.network.bandwidth: [1 Gbit/s, 10 Gbit/s]
    zip:
      - {cluster.nodes: [1, 2, 8], cluster.gpus_per_node: [1, 4, 4]}
    skip:
      - {sparsifier: dgc, sparsifier.density: {above: 10 %}}

Rows have the order of the file, the last key changes fastest; keys under `zip` come after those under `vary`. A point
that meets all conditions of one entry of `skip` is left out; a condition is a value, a list of them, or comparisons
(`above`, `at_least`, `below`, `at_most`, `not`). A key below a kind that varies too is left out for kinds that do not
have it. Names are looked up as in the base: in its folder, in ./configs, in the package.

The folder holds `points.jsonl` (see `journal`), `manifest.json`, and at the end `results.parquet` and `results.csv`:
first the varied keys, quantities in SI with their unit in the name (`cluster.network.bandwidth_bytes_per_s`), then the
keys of the result document (see `row_table`), last `error`. Their contents depend on the points alone, not on
interruptions or on which process evaluated a point.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.errors import SparsimError
from simulator.files import write_text
from simulator.loading.documents import Document, read_document
from simulator.loading.finding import find_file, missing_file_error, named_file
from simulator.progress import Progress
from simulator.records import replace
from simulator.reporting.wording.blocks import method_name
from simulator.scenario.versions import versions
from simulator.studies.processes.executors import Batches, Evaluation, count_processes, run_locally
from simulator.studies.storage.journal import Journal, PointOutcome, failed
from simulator.studies.storage.row_table import table_of, write_table
from simulator.studies.sweep.points import GridPoints, Shard, SweepPlan, plan_sweep

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

FEW = 24
"""Up to so many points a program evaluates in its own process, where starting others takes longer."""


class PointFailed(SparsimError):
    """A point failed, and `fail_fast` was given."""


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep: its columns, the manifest that is on disk, and the errors of points that failed."""

    columns: pa.Table
    manifest: dict[str, Any]

    @property
    def errors(self) -> list[str]:
        """The errors of the points that failed, in the order of the points."""
        return [error for error in self.columns["error"].to_pylist() if error is not None]

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per point."""
        return self.columns.to_pandas()


def sweep(
    source: str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    workers: int | None = None,
    *,
    retry_failed: bool = False,
) -> pd.DataFrame:
    """Evaluate a sweep file, or a mapping of that form; one row per point, in SI. Raises InputError for bad input."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder if out is None else out)
        return run_sweep(source, place, workers=workers, retry_failed=retry_failed, few=FEW).table


def run_sweep(
    source: str | Path | Mapping[str, Any] | Document,
    out: Path,
    *,
    base: str | Path | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    shard: Shard | None = None,
    fail_fast: bool = False,
    retry_failed: bool = False,
    ignore_memory: bool = False,
    few: int = 0,
    observe: Callable[[Progress], None] | None = None,
) -> SweepResult:
    """Evaluate a sweep into the folder `out` and reuse the points that are there already.

    `source`: a file or its name, a part of a file that was read, or a mapping without units.

    `base`: the scenario that is varied instead of the file's own; `cluster`: the address of a Dask scheduler whose
    workers evaluate; `shard` (i, n): only the i-th of n parts, i from 1, in files with that part's name; `fail_fast`:
    stop at the first point that fails; `retry_failed`: evaluate points again that failed before, whose errors are kept
    otherwise; `ignore_memory`: predict points that do not fit into the memory of a GPU, too;
    `few`: up to so many points are evaluated in this process, unless `workers` is stated;
    `observe` is called with the progress.

    Raises InputError for bad input or a folder in use, PointFailed with `fail_fast`, SparsimError where points cannot
    be evaluated. Finished points stay on disk in every case.
    """
    document, near = _open_sweep(source)
    if base is not None:
        document = _with_base(document, base)
    points = GridPoints(document, near, strict=not isinstance(source, Mapping))
    if ignore_memory:
        points.parts.fixed["ignore_memory"] = True
    if workers is None and len(points.grid.numbers()) <= few:
        workers = 1
    run, plan = _executor(workers, cluster), plan_sweep(points, shard)
    part = "" if shard is None else f"-{shard[0]}of{shard[1]}"
    with Journal(out, part) as journal:
        kept = journal.finished if retry_failed else journal.records.__contains__
        todo = [[n for n in group if not kept(plan.digests[n])] for group in plan.groups]
        todo = [group for group in todo if group]
        manifest = _manifest(document, points, plan, shard)
        manifest |= {"reused": manifest["distinct"] - sum(map(len, todo)), "started": _now(), "finished": None}
        _write_manifest(out / f"manifest{part}.json", manifest)
        progress, observe = Progress(manifest["distinct"], manifest["reused"]), observe or (lambda _: None)
        observe(progress)
        if fail_fast:
            before = (digest for digest in plan.digests.values() if kept(digest) and not journal.finished(digest))
            for error in chain(plan.broken.values(), (journal.record(digest).error for digest in before)):
                raise PointFailed(error)
        began = time.monotonic()
        with closing(run(points.evaluate, todo)) as outcomes:  # on any exception all its processes are stopped
            for batch in outcomes:
                errors = _keep(batch, plan, journal)
                progress.evaluated += len(batch)
                progress.failed += len(errors)
                progress.seconds = time.monotonic() - began
                observe(progress)
                if errors and fail_fast:
                    raise PointFailed(errors[0])
        table = _write_table(out / f"results{part}", points, plan, journal)
        swept = SweepResult(table, manifest)
        manifest |= {"evaluated": progress.evaluated, "failed": len(swept.errors), "finished": _now()}
        _write_manifest(out / f"manifest{part}.json", manifest)
    return swept


def _keep(batch: Sequence[Evaluation[PointOutcome]], plan: SweepPlan, journal: Journal) -> list[str]:
    """Write outcomes into the journal; the errors among them. Raises SparsimError for one of another version."""
    found = {number: outcome or failed(plan.digests[number], lost) for number, outcome, lost in batch}
    for number, outcome in found.items():
        if outcome.digest != plan.digests[number]:
            raise SparsimError(f"point {number} was evaluated by another version of sparsim")
    journal.add([*found.values()])
    return [outcome.error for outcome in found.values() if outcome.error is not None]


def _write_table(place: Path, points: GridPoints, plan: SweepPlan, journal: Journal) -> pa.Table:
    choices = [points.grid.choice(number) for number in plan.rows]
    varied: dict[str, list[Any]] = {}
    for axis in range(len(points.axes)):
        name, values = points.column(axis)
        varied[name] = [values[choice[axis]] for choice in choices]
    table = table_of(varied, (_row(number, plan, journal) for number in plan.rows))
    write_table(place, table)
    return table


def _row(number: int, plan: SweepPlan, journal: Journal) -> Mapping[str, Any]:
    if number in plan.broken:
        return {"digest": None, "error": plan.broken[number]}
    digest = plan.digests[number]
    record = journal.record(digest)
    return record.row or {"digest": digest.partition("+")[0], "error": record.error}  # without what its row holds


def _open_sweep(source: str | Path | Mapping[str, Any] | Document) -> tuple[Document, Path]:
    if isinstance(source, Document):
        return source, Path(source.path).parent
    if isinstance(source, Mapping):
        return Document("sweep", dict(source), {}), Path()
    found = find_file(str(source), None, "scenarios/sweeps") or find_file(str(source), None, "scenarios")
    if found is None:
        raise missing_file_error(str(source), "scenarios/sweeps")
    return read_document(found), found.parent


def _with_base(document: Document, base: str | Path) -> Document:
    """The sweep with another base, whose method joins those that vary. Raises InputError where no scenario has that
    name."""
    found = named_file(str(base), "scenarios", "--base")
    data = {**document.mapping("a sweep: a mapping"), "base": str(found.resolve())}
    own, vary = read_document(found).mapping("a scenario: a mapping").get("sparsifier"), data.get("vary")
    if own and isinstance(vary, dict) and isinstance(methods := vary.get("sparsifier"), list):
        written = {"kind": own} if isinstance(own, str) else own
        own = {key: value for key, value in written.items() if f"sparsifier.{key}" not in vary}
        names = [method_name(json.dumps(item).strip('"')) for item in (own, *methods)]
        if names[0] not in names[1:]:
            data["vary"] = {**vary, "sparsifier": [*methods, own]}
    return replace(document, data=data)


def _executor(workers: int | None, cluster: str | None) -> Callable[..., Batches[PointOutcome]]:
    if cluster is not None:
        from simulator.studies.processes.dask_executor import find_distributed, run_on_cluster

        find_distributed()  # it is refused before anything is written
        return partial(run_on_cluster, address=cluster)
    return partial(run_locally, processes=count_processes((os.cpu_count() or 1) if workers is None else workers))


def _manifest(document: Document, points: GridPoints, plan: SweepPlan, shard: Shard | None) -> dict[str, Any]:
    content = json.dumps(document.data, sort_keys=True, default=str)
    return {
        "sweep": points.name,
        "sweep_digest": hashlib.sha256(content.encode()).hexdigest(),
        "versions": versions(),
        "shard": None if shard is None else f"{shard[0]}/{shard[1]}",
        "points": len(plan.rows),
        "distinct": sum(map(len, plan.groups)),
        "skipped": int(points.grid.left_out.sum()),
    }


def _write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    write_text(path, json.dumps(manifest, indent=2) + "\n")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
