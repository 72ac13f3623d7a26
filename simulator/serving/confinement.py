"""What a scenario from the page may read: files that come with the package, and those that the command line named."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from simulator.errors import InputError, Problem, format_value
from simulator.loading.documents import Document, KeyPath
from simulator.loading.finding import find_file, find_in_folder, find_shipped, only_shipped_files
from simulator.models.precision import NUMBER_BYTES

_FILES = ("config", "gradients", "layers", "tuner")
"""Keys whose text is the name of a file or folder."""
_TEXTS = ("name", "question", "source", "device")
"""Keys whose text names no file."""
_FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect")


def refuse_paths(document: Document, allowed: Mapping[str, Path]) -> None:
    """Raise InputError for every key that names a file or folder, unless it names one of `allowed`.

    All other names are looked for among the files that come with the package (`only_shipped_files`).
    """
    problems = [
        Problem(
            f"{document.where(path)}: {'.'.join(map(str, path))}",
            "the name of a part that comes with sparsim",
            f"{format_value(text)}, a file or folder",
            "this page reads no files; `sparsim run` does",
        )
        for path, text in _texts(document.data)
        if _last_word(path) in _FILES and text not in ("", *NUMBER_BYTES, *allowed)
    ]
    if problems:
        raise InputError(problems)


def _last_word(path: KeyPath) -> str:
    """The last word of a key; those of `versus` are dotted themselves."""
    return next((part for part in reversed(path) if isinstance(part, str)), "").rpartition(".")[2]


def _texts(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(item, (*path, key))


def named_files(document: Document, near: Path) -> dict[str, Path]:
    """The files that a scenario of the command line names and that do not come with the package."""
    found: dict[str, Path] = {}
    for path, text in _texts(document.data):
        if _last_word(path) in _TEXTS or not text:
            continue
        beside = find_in_folder(text, near) if _last_word(path) in _FILES else None
        place = beside or find_file(text, near)
        with only_shipped_files({}):
            shipped = find_file(text, None)
        if place is not None and shipped is None:
            found[text] = place.resolve()
    return found


def lock_files(allowed: Mapping[str, Path]) -> None:
    """From now on this process opens no file but those of Python, of the package and beside `allowed`.

    A second line behind `refuse_paths`, whatever a scenario makes the program ask for. It cannot be undone.
    """
    here = os.getcwd()
    # Where Python and packages are; the current folder is on the path when Python runs a module.
    roots = {sys.prefix, sys.base_prefix, *(item for item in sys.path if item and os.path.realpath(item) != here)}
    roots |= {str(folder) for part in ("configs", "scenarios", "simulator") if (folder := find_shipped(part))}
    roots |= {str(path.parent) for path in allowed.values()}
    places = tuple(os.path.join(os.path.realpath(root), "") for root in roots)
    sys.dont_write_bytecode = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        refused = event in _FORBIDDEN or (event == "open" and not _may_open(arguments, places))
        if refused or (event in ("os.listdir", "os.scandir") and not _is_inside(arguments[0], places)):
            raise PermissionError(13, "not read by this page")

    sys.addaudithook(watch)


def _may_open(arguments: tuple[Any, ...], places: tuple[str, ...]) -> bool:
    path, mode, flags = arguments
    writes = bool(set(mode or "") & set("wax+")) or bool((flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return isinstance(path, int) or (not writes and _is_inside(path, places))


def _is_inside(path: Any, places: tuple[str, ...]) -> bool:
    return os.path.join(os.path.realpath(os.fsdecode(path or ".")), "").startswith(places)
