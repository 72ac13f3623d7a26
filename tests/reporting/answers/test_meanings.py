"""What keys of answers mean: each has its unit, which is the end of the key where it is seconds or bytes."""

from importlib import import_module
from typing import get_type_hints

import pytest
from msgspec import json
from msgspec.structs import fields

from simulator.answers import Answer

NAMES = ("advised", "compared", "explained", "planned", "trained", "validated")
MODULES = [import_module(f"simulator.reporting.answers.{name}") for name in NAMES]
MEMBERS = [(module.__name__, kind) for module in MODULES for kind in vars(module).values() if isinstance(kind, type)]
KINDS = [kind for name, kind in MEMBERS if issubclass(kind, Answer) and kind.__module__ == name]
ALWAYS_WHOLE = {"Availability", "RankedRow", "AdviceSummary", "KernelCost", "ErrorSummary", "SignSum", "ValidatedModel"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_has_its_unit_and_is_written_where_it_is_the_default_of_some(kind):
    hints = get_type_hints(kind, include_extras=True)
    for item in fields(kind):
        for about in getattr(hints[item.name], "__metadata__", ()):
            unit = about.extra["unit"]
            assert unit in {"", "1", "s", "B", "B/s", "samples/s", "min"}
            assert (unit == "s") == item.encode_name.removesuffix("samples_per_s").endswith(("_s", "seconds"))
            assert (unit == "B") == ("bytes" in item.encode_name)
    stated = [item.name for item in fields(kind) if item.required]
    written = json.decode(json.encode(kind(**dict.fromkeys(stated))))
    assert (len(written) > len(stated)) == (kind.__name__ in ALWAYS_WHOLE)
