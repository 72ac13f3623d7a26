"""What a short command imports: start-up is most of what a user waits for."""

import pkgutil
import subprocess
import sys
from functools import cache
from importlib import import_module

import click
import pytest

import simulator.cli
from simulator.cli.root import MODULES

HEAVY = {
    "dask", "distributed", "email.mime", "IPython", "jinja2", "jsonschema", "matplotlib", "multiprocessing.pool",
    "numba", "pandas", "plotly", "pyarrow", "scipy", "starlette", "torch", "uvicorn", "webbrowser",
}  # fmt: skip
"""Packages that no short command needs."""
AFTER = """
import sys
from simulator.cli import main
main({arguments}, standalone_mode=False)
print("\\n".join(sys.modules), file=sys.stderr)
"""


@cache
def modules_after(*arguments):
    command = [sys.executable, "-c", AFTER.format(arguments=[*arguments])]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stderr.split())


@pytest.mark.parametrize(
    "arguments", [("run", "quickstart"), ("check", "ring_check"), ("list", "gpus"), ("run", "quickstart", "--json")]
)
def test_a_short_command_imports_nothing_heavy(arguments):
    assert not HEAVY & modules_after(*arguments)


def test_help_imports_nothing_that_takes_long():
    assert not {"numpy", "pydantic", "rich", "simpy"} & modules_after("--help")


def test_a_run_imports_the_file_of_each_kind_that_it_names():
    imported = modules_after("run", "ring_check")
    assert "simulator.topologies.ring" in imported
    members = {name for name in imported if name.startswith("simulator.sparsifiers.")}
    needed = ("base", "dense", "implementation", "sampling", "steps")
    assert members <= {f"simulator.sparsifiers.{name}" for name in needed}


def test_a_run_imports_its_own_module_of_commands_and_where_it_follows_no_messages_no_event_loop():
    others = {f"simulator.cli.{module}" for module in MODULES.values()}
    others |= {f"simulator.engine.rounds.{name}" for name in ("event_loop", "flows", "network")}
    assert modules_after("run", "quickstart") & others == {"simulator.cli.runs"}


def test_every_command_is_found_by_its_name():
    for module in pkgutil.iter_modules(simulator.cli.__path__):
        import_module(f"simulator.cli.{module.name}")
    assert set(simulator.cli.main.commands) == set(MODULES)
    assert all(isinstance(command, click.Command) for command in simulator.cli.main.commands.values())


def test_a_sweep_imports_no_pandas(tmp_path):
    imported = modules_after("sweep", "density_sweep", "--out", str(tmp_path / "out"), "--workers", "1")
    assert "pyarrow.parquet" in imported and "pandas" not in imported


def spent(first):
    """CPU seconds of a fresh process, the least of three."""
    command = [sys.executable, "-c", SPENT.format(first=first)]
    return min(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(3))


SPENT = """
import time
{first}
print(time.process_time())
"""


@pytest.mark.long
def test_imports_of_a_run_take_a_few_times_as_long_as_those_of_numpy():
    """In CPU time of one machine; numpy takes about 0.1 s. With pandas it would be eight times."""
    numpy = spent("import numpy")
    imports = "simulator.prediction.run, simulator.reporting.terminal.printing, simulator.reporting.wording.runs"
    assert spent(f"import gc; gc.disable(); import {imports}") <= 6 * numpy
