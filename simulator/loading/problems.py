"""Validation errors as problems, each with its place in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from simulator.errors import Problem, format_value
from simulator.loading.documents import Document, Path_


def problems_of(error: ValidationError, document: Document) -> list[Problem]:
    """Every validation error as a problem with its place in the file."""
    return list(_flatten(error.errors(include_url=False), document))


def _flatten(errors: Any, document: Document) -> Iterator[Problem]:
    broken = {item["loc"][:cut] for item in errors for cut in range(len(item["loc"]))}
    for item in errors:
        if item["type"] == "too_short" and item["loc"] in broken:
            continue  # entries were written; the wrong ones are reported themselves
        path: Path_ = tuple(part for part in item["loc"] if part not in ("affine", "n_log_n", "piecewise"))
        context = item.get("ctx") or {}
        if item["type"] == "input_error":
            yield from context["problems"]
            continue
        yield _problem(item, document.where(path), ".".join(str(part) for part in path), context)


_EXPECTED = {
    "missing": "this key",
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


def _problem(item: Any, place: str, name: str, context: Mapping[str, Any]) -> Problem:
    where = f"{place}: {name}" if name else place
    got = format_value(item.get("input"))
    kind = item["type"]
    if kind == "expected":
        return Problem(where, context["what"], context["got"], context["hint"])
    if kind == "quantity":
        return Problem(where, context["text"], got)
    if kind == "missing":
        return Problem(where, "this key", "nothing")
    expected = _EXPECTED.get(kind, item["msg"]).format(**context)
    return Problem(where, expected, got)
