"""Commands, run in this process, and programmes in one of their own."""

import json
import subprocess
import sys

from click.testing import CliRunner

from simulator.cli import main


def invoke(*arguments, **options):
    """What a command does; an exception that it does not handle is raised here."""
    return CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False, **options)


def printed(*arguments, **options):
    """What a command prints that succeeds."""
    result = invoke(*arguments, **options)
    assert result.exit_code == 0, result.output
    return result.output


def answered(*arguments):
    """The JSON that a command prints that succeeds."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*arguments):
    """What a command says of arguments or inputs that it refuses."""
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    return result.stderr


def run_python(*arguments, check=True, **options):
    """What a new process of Python leaves and prints."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=check, **options)
