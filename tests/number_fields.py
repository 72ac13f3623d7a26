"""Every number that a user may write, found in the specs themselves: its kind and its bounds."""

import importlib
import pkgutil
from dataclasses import dataclass

from own_classes import own_classes

import simulator
from simulator.bounds import BOUNDS, OrZero
from simulator.component import Spec
from simulator.units import Quantity

NEEDS_TORCH = tuple(f"simulator.{name}" for name in ("record", "training.loop", "training.task", "training.tasks"))


@dataclass(frozen=True)
class Number:
    """A number in a field, `whole` or not, from `smallest` to `largest`; `zero`: 0 as well. None: no bound."""

    whole: bool
    smallest: float | None
    largest: float | None
    zero: bool
    quantity: bool


def all_specs(package=simulator):
    """Every class of specs in a package."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.startswith(NEEDS_TORCH) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return [spec for spec in own_classes(Spec) if spec.__module__.startswith(package.__name__)]


def unbounded(specs):
    """Names of numbers without a smallest or a largest value."""
    return {
        f"{spec.__module__}.{spec.__qualname__}.{name}"
        for spec in specs
        for name, number, _ in numbers(spec)
        if number.smallest is None or number.largest is None
    }


def numbers(spec):
    """(name, Number, whether the number is the field itself) of a spec's own fields."""
    schema = spec.__pydantic_core_schema__
    while "fields" not in schema:
        schema = schema["schema"]
    for name, field in schema["fields"].items():
        for number, depth in _numbers(field):
            yield name, number, depth == 0


def _numbers(schema, depth=0):
    kind = schema.get("type")
    if kind in ("int", "float"):
        low, high = schema.get("ge", schema.get("gt")), schema.get("le", schema.get("lt"))
        yield Number(kind == "int", low, high, low == 0 and "ge" in schema, False), depth
        return
    function = schema.get("function")
    owner = getattr(function.get("function"), "__self__", None) if isinstance(function, dict) else None
    if isinstance(owner, OrZero | Quantity):
        bounds = BOUNDS[owner.kind]
        yield Number(False, bounds.smallest, bounds.largest, owner.zero, isinstance(owner, Quantity)), depth
        return
    if kind in ("model", "definition-ref"):
        return
    inside = depth + (kind in ("tuple", "list", "dict"))
    for key in ("schema", "items_schema", "keys_schema", "values_schema"):
        value = schema.get(key)
        for item in value if isinstance(value, list) else [value] if isinstance(value, dict) else []:
            yield from _numbers(item, inside)
    for choice in schema.get("choices", ()) if kind == "union" else ():
        yield from _numbers(choice[0] if isinstance(choice, tuple) else choice, inside)
