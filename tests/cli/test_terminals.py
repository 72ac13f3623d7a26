"""Terminals that know few characters: every command prints there, and what it prints says the same."""

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from long_examples import few_first

from simulator.cli import main
from simulator.cli.terminals import LOOK_ALIKES, look_alike

COMMANDS = (
    ["run", "quickstart"],
    ["run", "quickstart", "--json"],
    ["check", "ring_check"],
    ["explain", "ring_check"],
    ["compare", "quickstart", "ring_check"],
    ["list"],
    ["list", "gpus"],
    ["--help"],
    ["run", "--help"],
)


def printed(arguments, charset):
    result = CliRunner(charset=charset).invoke(main, arguments, env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("charset", few_first(["ascii", "latin-1"]))
@pytest.mark.parametrize("arguments", few_first(COMMANDS, 3), ids=" ".join)
def test_what_a_terminal_cannot_print_is_replaced_by_what_looks_like_it(arguments, charset):
    there, here = printed(arguments, charset), printed(arguments, "utf-8")
    assert "?" not in there.replace("?", "", here.count("?")) and len(there.splitlines()) == len(here.splitlines())
    if not any(character in here for character in "│─┏━"):  # rules of tables, which have other widths in ASCII
        assert look_alike(there) == look_alike(here)


@pytest.mark.parametrize("charset", ["ascii", "latin-1"])
def test_a_message_about_names_in_another_script_is_printed(charset):
    result = CliRunner(charset=charset).invoke(main, ["run", "quickstart", "--set", "sparsifier=東京é"])
    assert result.exit_code == 2 and "expected a kind of sparsifier" in result.stderr
    assert charset == "ascii" or "??é" in result.stderr  # click itself sends UTF-8 to streams that say ASCII


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_process_in_the_c_locale_prints(encoding):
    environment = os.environ | {"PYTHONIOENCODING": encoding, "LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "simulator", "run", "ring_check"]
    made = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert made.stdout.decode(encoding).startswith("ring check\niteration time") and b"Traceback" not in made.stderr


@given(st.text())
def test_every_text_has_an_ascii_look_alike(text):
    made = look_alike(text)
    assert made.isascii()
    assert made == text or not text.isascii()


def test_look_alikes_are_ascii():
    assert all(text.isascii() and text.isprintable() for text in LOOK_ALIKES.values())
