"""Named files: where scenarios, configs and recorded traces are looked for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from simulator.errors import InputError, Problem, format_value, suggest_nearest

TRACE_FILE = "trace.yaml"
CONFIG_FILE = "config.json"
"""What transformers calls the description of a model."""
_PACKAGE = Path(__file__).parent.parent
_ROOTS = (Path(), _PACKAGE, _PACKAGE.parent)
"""The current folder, the installed package, and the source tree: each may have `configs` and `scenarios`."""
_NOUNS = {
    "scenarios": "scenario",
    "scenarios/sweeps": "sweep",
    "scenarios/papers": "paper",
    "workloads": "workload",
    "gpus": "GPU",
    "networks": "network",
    "runtimes": "runtime",
    "traces": "trace",
}
"""What the folders hold; those that do not begin with `scenarios` are in `configs`."""
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*){0,3}")
"""Names of shipped files: no part is `..`, and none is empty."""
_ALLOWED: ContextVar[Mapping[str, Path] | None] = ContextVar("_ALLOWED", default=None)
"""Files besides the shipped ones that names may find; None: names find any file."""


@contextmanager
def only_shipped_files(others: Mapping[str, Path]) -> Iterator[None]:
    """Inside, names find nothing but files that come with the package, and `others` by exactly these names.

    For scenarios whose author may not read the files of this machine.
    """
    token = _ALLOWED.set(others)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def find_file(name: str, near: Path | None, home: str = "configs") -> Path | None:
    """A named file: next to the file that names it (in `near`), in the current folder, in ./`home`, in the package.

    The name of a folder finds the `trace.yaml` of a recorded trace, or the `config.json` of a model.
    """
    allowed = _ALLOWED.get()
    if allowed is not None:
        shipped = _search(name, [root / home for root in _ROOTS[1:]]) if _NAME.fullmatch(name) else None
        return allowed.get(name) or shipped
    return _search(name, [*([near] if near else []), Path(), *(root / home for root in _ROOTS)])


def find_in_folder(name: str, near: Path | None) -> Path | None:
    """A file that another one names, in the folder of that file; None where there is none, or none may be read."""
    allowed = _ALLOWED.get()
    if allowed is not None:
        return allowed.get(name)
    path = (near or Path()) / name
    return path if os.path.isfile(path) else None


def _search(name: str, places: list[Path]) -> Path | None:
    for place in map(os.fspath, places):
        here = os.path.join(place, name)
        inside = (os.path.join(here, name) for name in (TRACE_FILE, CONFIG_FILE))
        for candidate in (here, f"{here}.yaml", f"{here}.yml", *inside):
            if os.path.isfile(candidate):  # False, not an error, for a name that no file can have
                return Path(candidate)
    return None


def find_shipped(path: str, here: bool = False) -> Path | None:
    """A file or folder that comes with the package; with `here`, one below the current folder is preferred."""
    return next((root / path for root in _ROOTS[0 if here else 1 :] if (root / path).exists()), None)


def known_names(folder: str) -> list[str]:
    """Names of the files in one of the folders above, here and in the package, for hints and completion."""
    roots = _ROOTS if _ALLOWED.get() is None else _ROOTS[1:]
    home, prefix = (folder, "") if folder.startswith("scenarios") else (f"configs/{folder}", f"{folder}/")
    if folder == "traces":
        found = {path.parent.name for root in roots for path in (root / home).glob(f"*/{TRACE_FILE}")}
    else:
        found = {path.stem for root in roots for path in (root / home).glob("*.yaml")}
    return sorted(prefix + name for name in found)


def missing_file_error(name: str, folder: str, where: str = "", near: bool = False) -> InputError:
    """The error for a name that no file in `folder` has; `near`: it was also looked for next to the file that names it.

    >>> print(missing_file_error("quickstrat", "scenarios"))
    no scenario named 'quickstrat' in the current folder, in ./scenarios or in the package: did you mean 'quickstart'?
    """
    folder = "traces" if name.startswith("traces/") else folder
    home = folder if folder.startswith("scenarios") else "configs"
    places = f"{'next to this file, ' if near else ''}in the current folder, in ./{home} or in the package"
    if _ALLOWED.get() is not None:
        places = "among those that come with sparsim, and files of this machine are not read here"
    text = f"no {_NOUNS[folder]} named {format_value(name)} {places}"
    hint = suggest_nearest(name, known_names(folder))
    if folder == "traces":
        hint = "; ".join(filter(None, [hint, "larger ones come with `pip install sparsim-traces`"]))
    return InputError(Problem(where, "", text, hint))


def named_file(name: str, folder: str, where: str = "", near: Path | None = None) -> Path:
    """The file of that name. Raises InputError where there is none; `where` names it, `near` is looked in as well."""
    found = find_file(name, near, folder)
    if found is None:
        raise missing_file_error(name, folder, where, near is not None)
    return found
