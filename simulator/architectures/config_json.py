"""A `config.json` as Hugging Face's transformers writes it: the sizes of a model; nothing in it is executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulator.architectures.config_keys import OTHERWISE, ConfigKeys
from simulator.architectures.config_types import REFUSED, TYPES
from simulator.errors import InputError, Problem, format_value
from simulator.loading.documents import read_document
from simulator.loading.finding import find_in_folder
from simulator.models.precision import format_named
from simulator.records import Record

NAME = "config.json"
_SEQUENCE = 4096
"""Tokens of a sample where nothing states them: as Llama 2 was trained (Touvron et al. 2023, 2307.09288)."""


_DECODERS = "transformer", "encoder_decoder", "state_space"
_LENGTHS = "max_position_embeddings", "n_positions", "max_seq_len", "seq_length"


class Config(Record):
    """The described model in a config.json: its `model` and sizes, and in words where they come from, by key."""

    sizes: dict[str, Any]
    notes: dict[str, str]


def read_config(name: str, near: Path | None) -> Config:
    """The described model in a config.json, or in a folder with one.

    Looked for next to the file that names it, and in the current folder. The type of its numbers (`dtype`,
    `torch_dtype`) is the precision; a sample has as many tokens as the model has positions, or 4,096 if these are more.
    Raises InputError for a file that is absent, for a `model_type` that is not supported, and for sizes that are
    missing or no numbers.
    """
    document = read_document(_find(name, near))
    data = document.data
    if not isinstance(data, dict):
        raise InputError(Problem(document.where(()), "a mapping, as transformers writes it", format_value(data)))
    kind = data.get("model_type")
    where = f"{document.where(('model_type',))}: model_type"
    if isinstance(kind, str) and kind in REFUSED:
        got = f"{kind}, which has {REFUSED[kind]}"
        raise InputError(Problem(where, "a model all of whose parts are modelled", got, OTHERWISE))
    if not isinstance(kind, str) or kind not in TYPES:
        text = format_value(kind) if kind else "no `model_type`"
        raise InputError(Problem(where, f"one of {', '.join(TYPES)}", text, OTHERWISE))
    keys = ConfigKeys(document, data)
    made = TYPES[kind](keys)
    notes = dict(keys.said)
    if made["model"] in _DECODERS and "sequence" not in made:
        key = next((key for key in _LENGTHS if keys.get(key) is not None), "")
        most = keys.numbers({"most": key})["most"] if key else None
        made["sequence"] = min(most or _SEQUENCE, _SEQUENCE)
        stated = f"{key} is {most:,}" if most else "the file states no length"
        notes["sequence"] = f"sequence {made['sequence']:,} tokens, since {stated}; --set sequence=... for another"
    dtype = str(data.get("dtype") or data.get("torch_dtype") or "")
    if precision := format_named(dtype):
        made["precision"] = precision
        notes["precision"] = f"precision {precision}, since its dtype is {dtype.removeprefix('torch.')}"
    elif dtype:
        notes["precision"] = f"dtype {format_value(dtype)} is no precision of gradients: they count as fp32"
    method = data.get("quantization_config")
    if isinstance(method, dict):
        name = str(method.get("quant_method", "unnamed"))[:40]
        notes["quantisation"] = f"its weights are quantised ({name}), which training does not see: all elements count"
    if unread := keys.unread():
        notes["keys"] = unread
    return Config(made, notes)


def _find(name: str, near: Path | None) -> Path:
    for folder in (near, None) if near else (None,):
        for candidate in (name, f"{name}/{NAME}"):
            found = find_in_folder(candidate, folder)
            if found is not None:
                return found
    places = "next to this file or in the current folder" if near else "in the current folder"
    raise InputError(Problem("", "", f"no file {format_value(name)} {places}", "give the path of a config.json"))
