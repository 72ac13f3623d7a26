"""Opening what a page can be made of: the sources of figures, and scenarios, which are run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from simulator.errors import InputError, Problem
from simulator.loading.documents import read_document
from simulator.loading.finding import find_file
from simulator.reporting.figures.data.sources import Source, open_source


@contextmanager
def open_results(place: str, overrides: Sequence[str] = ()) -> Iterator[Source]:
    """Results by their place; a scenario is run first, into a folder that exists while the source is open.

    Raises InputError where nothing is found that a page can be made of.
    """
    path = Path(place)
    if place != "-" and not path.is_dir() and path.suffix not in (".json", ".parquet", ".csv", ".gz"):
        files = (file for file in (find_file(place, None, "scenarios"), find_file(place, None)) if file is not None)
        config = next((file for file in files if file.suffix in (".yaml", ".yml")), None)
        data = read_document(config).data if config is not None else None
        if isinstance(data, dict) and "workload" in data:
            with _run_scenario(place, tuple(overrides)) as source:
                yield source
            return
    if overrides:
        raise InputError(Problem("--set", "a scenario to run", "results", "results cannot be changed"))
    yield open_source(place)


@contextmanager
def _run_scenario(place: str, overrides: tuple[str, ...]) -> Iterator[Source]:
    """A scenario's prediction with its comparison, if it asks for one, stored as by `sparsim run --out`."""
    from simulator.prediction.run_files import store
    from simulator.records import replace
    from simulator.studies.compare.baseline import run_with_comparison

    prediction = run_with_comparison(place, overrides)
    with tempfile.TemporaryDirectory() as folder:
        store(Path(folder), prediction)
        yield replace(open_source(folder), place=place)
