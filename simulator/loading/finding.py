"""Named files: where scenarios, configs and recorded traces are looked for."""

from __future__ import annotations

import os
from pathlib import Path

from simulator.errors import InputError, Problem, format_value, suggest_nearest

TRACE_FILE = "trace.yaml"
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


def find_file(name: str, near: Path | None, home: str = "configs") -> Path | None:
    """A named file: next to the file that names it (in `near`), in the current folder, in ./`home`, in the package.

    The name of a recorded trace's folder finds its `trace.yaml`.
    """
    for place in [*([near] if near else []), Path(), *(root / home for root in _ROOTS)]:
        for suffix in ("", ".yaml", ".yml"):
            for candidate in (place / (name + suffix), place / name / TRACE_FILE):
                if os.path.isfile(candidate):  # False, not an error, for a name that no file can have
                    return candidate
    return None


def find_shipped(path: str, here: bool = False) -> Path | None:
    """A file or folder that comes with the package; with `here`, one below the current folder is preferred."""
    return next((root / path for root in _ROOTS[0 if here else 1 :] if (root / path).exists()), None)


def known_names(folder: str) -> list[str]:
    """Names of the files in one of the folders above, here and in the package, for hints and completion."""
    home, prefix = (folder, "") if folder.startswith("scenarios") else (f"configs/{folder}", f"{folder}/")
    if folder == "traces":
        found = {path.parent.name for root in _ROOTS for path in (root / home).glob(f"*/{TRACE_FILE}")}
    else:
        found = {path.stem for root in _ROOTS for path in (root / home).glob("*.yaml")}
    return sorted(prefix + name for name in found)


def missing_file_error(name: str, folder: str, where: str = "", near: bool = False) -> InputError:
    """The error for a name that no file in `folder` has; `near`: it was also looked for next to the file that names it.

    >>> print(missing_file_error("quickstrat", "scenarios"))
    no scenario named 'quickstrat' in the current folder, in ./scenarios or in the package: did you mean 'quickstart'?
    """
    home = folder if folder.startswith("scenarios") else "configs"
    places = f"{'next to this file, ' if near else ''}in the current folder, in ./{home} or in the package"
    text = f"no {_NOUNS[folder]} named {format_value(name)} {places}"
    return InputError(Problem(where, "", text, suggest_nearest(name, known_names(folder))))
