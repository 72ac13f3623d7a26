"""Records: what all of them keep to."""

import inspect
from importlib import import_module
from pkgutil import walk_packages

import pytest
from own_classes import own_classes

import simulator
from simulator.records import Record, Struct, asdict, replace


class Point(Record):
    """A place."""

    x: int
    y: int = 2


def test_a_record_does_not_change_and_is_compared_by_its_values():
    point = Point(1)
    with pytest.raises(AttributeError):
        point.x = 3
    assert point == Point(1, 2) != replace(point, y=3)
    assert hash(point) == hash(Point(1, 2))
    assert (asdict(point), str(point)) == ({"x": 1, "y": 2}, "Point(x=1, y=2)")


def test_every_class_of_records_has_a_signature_with_its_types():
    """Notebooks and the documentation show it."""
    for module in walk_packages(simulator.__path__, "simulator."):
        if not module.name.startswith(("simulator.__main__", "simulator.record.", "simulator.training")):
            import_module(module.name)
    ours = own_classes(Struct)
    assert len(ours) > 200
    for item in ours:
        assert list(inspect.signature(item).parameters) == list(item.__struct_fields__)
