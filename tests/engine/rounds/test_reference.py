"""The generated reference is whole: every key explained, every kind, unit, column and command on its page."""

import pytest
from docstrings import markdown, said_of
from own_classes import own_classes
from pages import family, pages, results, scenario, units
from spec_tables import keys_table

from simulator.answers import keys_of
from simulator.component import Spec, discover
from simulator.errors import EXIT_CODES
from simulator.prediction.result import RunResult, VerdictColumns
from simulator.scenario.catalogue import FAMILIES, schemas
from simulator.studies.sweep.sweep import sweep
from simulator.units import DIMENSIONS


def written():
    """Every spec that a person may write, each once."""
    for base in FAMILIES:
        discover(base)
    return [
        spec for spec in own_classes(Spec) if not spec.__module__.startswith(("simulator.traces", "simulator.record"))
    ]


def test_every_key_is_explained_in_a_docstring():
    unexplained = [(spec.__qualname__, key) for spec in written() for key, text in said_of(spec)[1].items() if not text]
    assert not unexplained, "add `- key`: what it is, to the docstring"


def test_a_docstring_is_cut_into_prose_and_keys():
    class Made(Spec):
        """A thing of 2 * k.

        `first`: what it is; `second` is another. It has a `third`, too.

        - `fourth`: the last.
        """

        first: int = 1
        second: int = 2
        third: int = 3
        fourth: int = 4

    prose, keys = said_of(Made)
    assert prose == "A thing of 2 \\* k."
    assert (keys["first"], keys["second"]) == ("what it is", "`second` is another. It has a `third`, too")
    assert (keys["third"], keys["fourth"]) == ("see `second`", "the last")
    assert markdown("1. a_b `c_d`") == "1\\. a\\_b `c_d`"
    assert "| `first` | whole number | `1` | what it is |" in keys_table(Made)


@pytest.mark.long
def test_pages_hold_all_that_there_is():
    everything = scenario()
    assert all(f"`{key}`" in everything for key in schemas()["scenario"]["properties"])
    for base in FAMILIES:
        page = family(base)
        for kind, member in discover(base).items():
            assert f"(kind-{kind})=" in page
            assert all(f"| `{key}` |" in page for key in member.model_fields), kind
    assert all(f"| `{unit}` |" in units() for each in DIMENSIONS.values() for unit in each.units)
    assert all(f"| `{key}` |" in results() for key in keys_of(RunResult))
    assert {"errors", "shipped"} <= set(pages())
    assert all(f"| `{code}` |" in pages()["errors"]() for code in EXIT_CODES)


@pytest.mark.long
def test_columns_of_a_sweep_are_those_described():
    # Only results of a replay have its columns.
    table = sweep({"base": "replay_topk", "vary": {"scheduler.streams": [1, 2]}}, workers=1)
    said, judged = results().partition("## Columns of a sweep")[2].split("With `verdicts: true`")
    membership = {"mean_time_between_failures": "1 h", "healing_time": "1 min"}
    there = {"scheduler": [{"kind": "diloco", "inner_steps": 4}], "cluster.membership": [membership]}
    local = sweep({"base": "quickstart", "vary": there}, workers=1)
    saving = {"policy": "checkpoint", "checkpoint_interval": "1 h", "checkpoint_time": "1 min"}
    saving["mean_time_between_failures"] = "100 h"
    checkpoints = sweep({"base": "quickstart", "vary": {"cluster.membership": [saving]}}, workers=1)
    sharded = sweep({"base": "hsdp_llama3", "vary": {"scheduler": [{"kind": "fsdp", "shard": 8}]}}, workers=1)
    there = {"parallelism.tensor": [2], "scheduler": [{"kind": "fsdp", "shard": 2}]}
    divided = sweep({"base": "hsdp_llama3", "vary": there}, workers=1)
    staged = sweep({"base": "megatron_llama3_70b", "vary": {"parallelism.tensor": [8]}}, workers=1)
    there = {"scheduler": [{"kind": "megatron"}], "sparsifier": ["dense"], "workload.micro_batches": [2]}
    there |= {"parallelism.pipeline.stages": [2], "ignore_memory": [True]}
    last = sweep({"base": "hsdp_llama3", "vary": there}, workers=1)
    sites = sweep({"base": "two_level_diloco", "vary": {"scheduler.inner_steps": [100]}}, workers=1)
    timed = {"measured.iteration_time": ["400 ms"], "measured.source": ["a timer"]}
    timed = sweep({"base": "quickstart", "vary": timed}, workers=1)
    tables = timed, sites, table, local, checkpoints, sharded, divided, staged, last
    columns = {column for each in tables for column in each.columns} - {"error", "measured.source"}
    columns -= {"measured.iteration_time_s", "scheduler.inner_steps", "cluster.membership", "parallelism.tensor"}
    columns -= {"scheduler", "scheduler.streams", *there}
    assert all(f"| `{name}` |" in said for name in columns)
    assert said.count("\n| `") == len(columns)
    assert all(f"| `{name}` |" in judged for name in keys_of(VerdictColumns))
