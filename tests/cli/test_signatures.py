"""Commands that are made from the signature and the docstring of a function."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import click
import pytest
from click.testing import CliRunner

from simulator.cli.signatures import SignedGroup, command, written

GIVEN: dict[str, Any] = {}


@click.group(cls=SignedGroup)
def box() -> None:
    """A box."""


@command(box)
def box_open_lid(
    places: Annotated[tuple[Path, ...], "PLACE..."] = (),
    *,
    size: Annotated[int, click.IntRange(1), "How large."],
    kind: Annotated[Literal["old", "new"] | None, "Which."],
    parts: Annotated[tuple[str, ...], written("--part", metavar="NAME")],
    share: float = 0.5,
    hurry: bool,
) -> None:
    """Open the lid.

    Examples:
        box open-lid --size 2
    """
    GIVEN.update(places=places, size=size, kind=kind, parts=parts, share=share, hurry=hurry)


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ("--size 2", {}),
        (
            "a b --size 3 --kind old --hurry",
            {"places": (Path("a"), Path("b")), "size": 3, "kind": "old", "hurry": True},
        ),
        ("--size 2 --part x --part -1 --share 1", {"parts": ("x", "-1"), "share": 1.0}),
    ],
)
def test_values_have_the_types_and_defaults_of_the_signature(arguments, changed):
    result = CliRunner().invoke(box, ["open-lid", *arguments.split()])
    assert result.exit_code == 0, result.output
    assert {"places": (), "size": 2, "kind": None, "parts": (), "share": 0.5, "hurry": False} | changed == GIVEN


@pytest.mark.parametrize("arguments", ["", "--size 0", "--size 2 --kind other", "--size 2 --part"])
def test_what_the_signature_does_not_allow_is_refused(arguments):
    assert CliRunner().invoke(box, ["open-lid", *arguments.split()]).exit_code == 2


def test_help_is_the_docstring_with_the_options():
    lines = CliRunner().invoke(box, ["open-lid", "--help"]).output.splitlines()
    assert lines[0] == "Usage: box open-lid [OPTIONS] PLACE..."
    assert "  --size INTEGER RANGE  How large.  [x>=1; required]" in lines and "  --part NAME" in lines
    assert lines[-2:] == ["Examples:", "  box open-lid --size 2"]
