"""Validation of documents: every validation error becomes a problem with its place in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from simulator.errors import InputError, Problem, format_value
from simulator.loading.documents import Document, KeyPath

T = TypeVar("T")

_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "string_too_long": "text of at most {max_length} letters",
    "string_pattern_mismatch": "text of the form {pattern}",
    "tuple_type": "a list",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "less_than_equal": "at most {le}",
    "greater_than_equal": "at least {ge}",
    "greater_than": "above {gt}",
    "less_than": "below {lt}",
    "literal_error": "one of {expected}",
    "too_short": "at least {min_length} entries",
    "too_long": "at most {max_length} entries",
}


def validate_document(validate: Callable[..., T], document: Document, near: Path | None = None) -> T:
    """What `validate` (a spec's `model_validate`, an adapter's `validate_python`) makes of a document's data.

    `near`: the folder in which names are looked up first. Raises InputError with every problem, each with its place.
    """
    try:
        return validate(document.data, context={"units_required": True, "near": near})
    except ValidationError as error:
        raise InputError(problems_of(error, document)) from None


def problems_of(error: ValidationError, document: Document) -> list[Problem]:
    """Every validation error as a problem with its place in the file."""
    return list(_problems(error.errors(include_url=False), document))


def _problems(errors: Any, document: Document) -> Iterator[Problem]:
    broken = {item["loc"][:cut] for item in errors for cut in range(len(item["loc"]))}
    for item in errors:
        if item["type"] == "too_short" and item["loc"] in broken:
            continue  # there are entries; the invalid ones are reported themselves
        path: KeyPath = tuple(part for part in item["loc"] if part not in ("affine", "n_log_n", "piecewise"))
        context = item.get("ctx") or {}
        if item["type"] == "input_error":
            yield from context["problems"]
            continue
        yield _problem(item, document.describe_place(path), context)


def _problem(item: Any, where: str, context: Mapping[str, Any]) -> Problem:
    kind, got = item["type"], format_value(item.get("input"))
    if kind == "expected":
        return Problem(where, context["what"], context["got"], context["hint"])
    if kind == "quantity":
        return Problem(where, context["text"], got)
    if kind == "missing":
        return Problem(where, "this key", "nothing")
    if kind in _EXPECTED:
        return Problem(where, _EXPECTED[kind].format(**context), got)
    return Problem(where, item["msg"].removeprefix("Input should be "), got)
