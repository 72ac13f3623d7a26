"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from simulator.errors import InputError, Problem


def write_text(path: Path, text: str) -> None:
    """Write a file atomically. Raises InputError where it cannot be written."""
    write_bytes(path, text.encode())


def write_yaml(path: Path, data: Mapping[str, Any], **form: Any) -> None:
    """Write plain data as YAML, keys in their order; `form`: of `yaml.safe_dump`. Raises InputError as `write_text`."""
    write_text(path, as_yaml(dict(data), **form))


def as_yaml(data: Any, **form: Any) -> str:
    """Plain data as YAML, keys in their order; of a resolved scenario `run` can read it again."""
    import yaml

    text: str = yaml.safe_dump(data, sort_keys=False, width=110, allow_unicode=True, **form)
    return text


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically. Raises InputError where it cannot be written."""
    replace_file(path, lambda name: Path(name).write_bytes(content))


def refuse_undecodable_name(path: Path) -> None:
    """Raise InputError where a name is not UTF-8: libraries that open files by their names take no others."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        shown = ascii(str(path))[1:-1]
        hint = "rename the file or folder"
        raise InputError(Problem(shown, "a name in UTF-8", "other bytes in it", hint)) from None


def replace_file(path: Path, write: Callable[[str], object]) -> None:
    """Let `write` fill a temporary file in the same folder, flush it to the disk and rename it to `path`.

    Readers see the old file or the new one, never a part of it. Raises InputError where the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            write(name)
            os.fsync(handle)
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)
    except OSError as error:
        raise InputError(Problem(str(path), "a place that can be written", error.strerror or str(error))) from None
