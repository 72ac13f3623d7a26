"""The package as a library: light to import, and the same functions as the command line."""

import subprocess
import sys

import pytest

import simulator
import sparsim
from simulator.scenario.scenario import Scenario


@pytest.mark.parametrize("name", ["simulator", "sparsim"])
def test_importing_the_package_imports_nothing_heavy(name):
    code = f"import sys, {name}; print([m for m in ('numpy', 'pydantic', 'simpy', 'pandas') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_name_is_there():
    assert set(simulator.__all__) <= set(dir(simulator))
    for name in simulator.__all__:
        assert callable(getattr(simulator, name))
    assert simulator.Scenario is Scenario
    assert simulator.record is sparsim.record
    assert {"record"} <= set(dir(simulator)) & set(dir(sparsim))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'advice_on_life'"):
        _ = simulator.advice_on_life


def test_load_run_and_explain_work_together():
    scenario = simulator.load("ring_check", ("cluster.nodes=4",))
    time = simulator.run(scenario).document["iteration_time_s"]
    document = simulator.explain(scenario)
    assert document.iteration_time == time
    assert sum(term.seconds for term in document.terms) == pytest.approx(time)


def test_sparsim_is_another_name_for_simulator():
    assert sparsim.__all__ == simulator.__all__
    assert set(sparsim.__all__) <= set(dir(sparsim))
    for name in sparsim.__all__:
        assert getattr(sparsim, name) is getattr(simulator, name)
    with pytest.raises(AttributeError, match="module 'sparsim' has no attribute 'advice_on_life'"):
        _ = sparsim.advice_on_life


def test_sparsim_is_a_command_of_python():
    done = subprocess.run([sys.executable, "-m", "sparsim", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: sparsim ")
