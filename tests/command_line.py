"""Commands, run in this process."""

import json

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
