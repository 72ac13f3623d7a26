"""Answers of functions as their JSON has them."""

from collections.abc import Mapping
from functools import wraps

from simulator.answers import to_document


def in_json(function):
    """A function whose answer is that of another one as plain mappings and lists."""

    @wraps(function)
    def answer(*arguments, **named):
        return to_document(function(*arguments, **named))

    return answer


def flatten(value, name=""):
    """Dotted keys with their values; those of a list of mappings for every entry."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flatten(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for item in value:
            yield from flatten(item, f"{name}[]")
    else:
        yield name, value
