"""Named files: where a config, a scenario or a recorded trace is looked for."""

from __future__ import annotations

import os
from pathlib import Path

from simulator.errors import InputError, Problem, format_value, suggest_nearest

TRACE_FILE = "trace.yaml"
_PACKAGE = Path(__file__).parent.parent


def find_file(name: str, near: Path | None, folder: str = "") -> Path | None:
    """A named file: beside the file that names it, in ./configs (or `folder`), then in the installed package.

    The name of a recorded trace's folder finds its `trace.yaml`.
    """
    home = folder or "configs"
    places = [near] if near else []
    places += [Path(), Path(home), _PACKAGE / home, _PACKAGE.parent / home]
    for place in places:
        for suffix in ("", ".yaml", ".yml"):
            for candidate in (place / (name + suffix), place / name / TRACE_FILE):
                if os.path.isfile(candidate):  # False, not an error, for a name that no file can have
                    return candidate
    return None


def known_names(subfolder: str, folder: str = "configs") -> list[str]:
    """Names that could have been meant, for hints."""
    names: set[str] = set()
    for root in _roots(folder):
        for path in (root / subfolder).glob("*.yaml"):
            names.add(f"{subfolder}/{path.stem}" if subfolder else path.stem)
    return sorted(names)


def known_traces() -> list[str]:
    """Names of recorded traces that could have been meant, for hints."""
    found = (path.parent for root in _roots("configs") for path in (root / "traces").glob(f"*/{TRACE_FILE}"))
    return sorted({f"traces/{folder.name}" for folder in found})


def _roots(folder: str) -> tuple[Path, ...]:
    return Path(folder), _PACKAGE / folder, _PACKAGE.parent / folder


def missing_file_error(name: str, where: str, subfolder: str, folder: str = "configs") -> InputError:
    """The error for a named file that is not there."""
    hint = suggest_nearest(name, known_names(subfolder, folder))
    return InputError(
        Problem(where, "a file beside this one, in ./configs or in the package", format_value(name), hint)
    )
