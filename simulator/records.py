"""Records: immutable objects of named values.

Thousands are made for every scenario, and hundreds of their classes when the program starts. Those of msgspec are made
in an eighth of the time of a frozen dataclass, and their classes in a thirtieth. `Struct` is the same for objects that
change. A class is a dataclass where others extend it by an `__init__` of their own (`progress.Watch`), or where one of
its types is imported only for those who check types (pandas): msgspec looks types up for a signature.
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
