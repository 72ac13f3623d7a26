"""Checkpoints: plain data with arrays in one file, which is written whole or not at all, and runs nothing when read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from simulator.errors import InputError, Problem
from simulator.files import write_bytes

CHECKPOINT_FILE = "checkpoint.npz"


def write_checkpoint(folder: Path, content: Mapping[str, Any]) -> None:
    """Write dicts, lists, numbers, text and arrays. Readers see the old checkpoint or the new one, never a part."""
    arrays: list[np.ndarray] = []
    text, file = json.dumps(_packed(content, arrays)), BytesIO()
    named: dict[str, Any] = {f"a{place}": array for place, array in enumerate(arrays)}
    np.savez(file, content=np.array(text), **named)
    write_bytes(folder / CHECKPOINT_FILE, file.getvalue())


def read_checkpoint(folder: Path) -> Mapping[str, Any] | None:
    """What was written; None where there is no checkpoint. Raises InputError for a damaged one."""
    path = folder / CHECKPOINT_FILE
    if not path.is_file():
        return None
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:

            def unpack(value: dict[str, Any]) -> Any:
                return file[f"a{value['array']}"][()] if "array" in value else dict(value["items"])

            return dict(json.loads(str(file["content"]), object_hook=unpack))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        hint = "remove it, and the training starts again"
        raise InputError(Problem(str(path), "a checkpoint", f"{type(error).__name__}", hint)) from None


def _packed(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        arrays.append(np.asarray(value))
        return {"array": len(arrays) - 1}
    if isinstance(value, dict):
        return {"items": [[_packed(part, arrays) for part in pair] for pair in value.items()]}
    if isinstance(value, list | tuple):
        return [_packed(item, arrays) for item in value]
    return value
