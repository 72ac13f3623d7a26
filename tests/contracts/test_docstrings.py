"""Examples in docstrings give what they say; a module is imported only to run its own."""

import doctest
import importlib

import pytest
from places import ROOT

RECORDING = ROOT / "simulator" / "record"
"""Needs PyTorch, and has no examples in its docstrings."""
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "simulator").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8") and RECORDING not in path.parents
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_hold(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert not found.failed
