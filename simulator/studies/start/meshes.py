"""How the GPUs of a first scenario share a model: a mesh in a few words, and the keys that say so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from simulator.aliases import kind_of
from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.studies.start.answers import AXES, AskedMesh
from simulator.studies.start.parsing import parse_number

MESHES: Mapping[str, Mapping[str, Any]] = {
    "fsdp": {"kind": "fsdp"},
    "hsdp": {"kind": "fsdp", "shard": "machine"},
    "hpz": {"kind": "fsdp", "keep": "node"},
    "zero1": {"kind": "zero", "stage": 1},
    "zero2": {"kind": "zero", "stage": 2},
    "zero3": {"kind": "fsdp"},
    "megatron": {"kind": "megatron"},
}
"""Names of meshes, and the schedules that run them; `machine`: a copy of the model in every machine."""
_SHARDED = {mesh["kind"] for mesh in MESHES.values()}
_AXIS = re.compile(rf"({'|'.join(AXES)})\s*=?\s*(\d+)")


def parse_mesh(option: str, text: str, gpus_per_machine: int) -> AskedMesh:
    """A mesh, with the sizes of its axes: `hsdp`, `megatron tp 8 pp 4`.

    Raises InputError for other words, and for a copy in every machine where machines have one GPU or one copy each.
    """
    word, *_ = text.split() or [""]
    name, rest = word.lower().rstrip(","), text.strip()[len(word) :]
    axes = {axis: parse_number(option, size, 1024) for axis, size in _AXIS.findall(rest.lower())}
    meant = kind_of("scheduler", name) or {}
    if not (name in MESHES or meant.get("kind") in _SHARDED) or re.sub(r"[\s,]", "", _AXIS.sub("", rest.lower())):
        what = f"{', '.join(MESHES)}, and sizes of axes, such as 'megatron tp 8 pp 4'"
        raise InputError(Problem(option, what, format_value(text), suggest_nearest(name, MESHES)))
    schedule = dict(MESHES.get(name) or meant)
    if schedule.get("shard") == "machine":
        schedule["shard"] = gpus_per_machine // (axes.get("tp", 1) * axes.get("cp", 1))
        if schedule["shard"] < 2:
            got = f"{gpus_per_machine} GPUs in a machine, with {axes.get('tp', 1) * axes.get('cp', 1)} for each copy"
            raise InputError(Problem(option, f"several copies in a machine, for {name}", got, "fsdp, or smaller axes"))
    return AskedMesh(schedule, axes)
