"""Records: immutable objects of named values.

Thousands are made for every scenario, and hundreds of their classes when the program starts. Those of msgspec are made
in a tenth of the time of a frozen dataclass, and their classes in a thirtieth. A class whose objects change, or that
hides a value from its text or its comparison, is a dataclass.
"""

from typing import dataclass_transform

from msgspec import Struct, field
from msgspec.structs import asdict, astuple, replace

__all__ = ["Record", "Struct", "asdict", "astuple", "field", "replace"]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record(Struct, frozen=True):
    """A class of records: the values stand in its body with their types, as in a frozen dataclass.

    Two of the same class are equal where their values are. `class Name(Record, dict=True)` can keep cached properties,
    `eq=False` compares objects instead of their values, and `order=True` sorts by the values in order.
    `replace(record, name=value)` makes another one.
    """
