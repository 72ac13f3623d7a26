"""Training scripts in Python that use torchft: the arguments of its local steps, read without running anything."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulator.errors import InputError, Problem
from simulator.loading.documents import read_text

_CALLS = {"DiLoCo": "diloco", "LocalSGD": "local_sgd"}
_KEYS = {
    "sync_every": "sync_steps",
    "fragment_sync_delay": "fragment_sync_delay",
    "fragment_update_alpha": "fragment_update_alpha",
    "should_quantize": "should_quantize",
}
"""Arguments of `DiLoCo` and `LocalSGD` (meta-pytorch/torchft, `local_sgd.py`), and what torchtitan calls them."""
_ORDER = {
    "DiLoCo": ("manager", "model_fragments", "inner_optimizer", "outer_optimizer", "sync_every"),
    "LocalSGD": ("manager", "model", "optimizer", "sync_every"),
}
_LARGEST_BUCKET = 1024.0
"""Mebibytes of a bucket where `use_bucketization` states none."""


def read_script(path: Path) -> tuple[Mapping[str, Any], float | None]:
    """The keys of the script's `DiLoCo(...)` or `LocalSGD(...)`, as torchtitan calls them, and bytes of a bucket.

    The bytes are None where tensors travel one by one. The script is parsed, not run; so every argument that counts has
    to be written out as a number. Raises InputError where it is not, with its line, and where there is no such call, or
    more than one.
    """
    try:
        tree = ast.parse(read_text(path), str(path))
    except SyntaxError as error:
        raise InputError(Problem(f"{path}:{error.lineno or 1}", "a script of Python", error.msg)) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(Problem(str(path), "a script of Python", str(error) or "too many levels")) from None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node) in _CALLS]
    if len(calls) != 1:
        lines = ", ".join(str(call.lineno) for call in calls)
        got = f"{len(calls)} in lines {lines}" if calls else "none"
        raise InputError(Problem(str(path), f"one call of {' or '.join(_CALLS)}", got))
    return _arguments(calls[0], path)


def _name(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _arguments(call: ast.Call, path: Path) -> tuple[Mapping[str, Any], float | None]:
    name = _name(call)
    stated = dict(zip(_ORDER[name], call.args, strict=False))
    stated |= {item.arg: item.value for item in call.keywords if item.arg is not None}
    made: dict[str, Any] = {"enable": True, "semi_sync_method": _CALLS[name]}
    for own, theirs in _KEYS.items():
        if own in stated:
            made[theirs] = _literal(stated[own], own, path)
    if "sync_every" not in stated:
        raise InputError(Problem(f"{path}:{call.lineno}", "sync_every in the call", "none"))
    fragments = stated.get("model_fragments")
    if isinstance(fragments, ast.List | ast.Tuple) and fragments.elts:
        made["num_fragments"] = len(fragments.elts)
    elif name == "DiLoCo" and fragments is not None:
        where, hint = f"{path}:{fragments.lineno}: model_fragments", "write one entry per fragment, to be counted"
        raise InputError(Problem(where, "a list that is written out", ast.unparse(fragments)[:80], hint))
    if not ("use_bucketization" in stated and _literal(stated["use_bucketization"], "use_bucketization", path)):
        return made, None
    cap = _literal(stated["bucket_cap_mb"], "bucket_cap_mb", path) if "bucket_cap_mb" in stated else None
    return made, float(cap or _LARGEST_BUCKET) * 2**20


def _literal(node: ast.expr, name: str, path: Path) -> Any:
    """The value of an argument that is written out."""
    value = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(value, int | float):
        what, got = "a number or True or False that is written out", ast.unparse(node)[:80]
        raise InputError(Problem(f"{path}:{node.lineno}: {name}", what, got, "the script is not run"))
    return value
