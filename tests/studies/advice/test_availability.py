"""Where methods, schedules and topologies exist: every shipped kind is listed, and lines carry its parameters."""

from typing import ClassVar

import pytest
from places import ROOT
from small_advice import scenario

from examples import example
from simulator.component import Component, discover
from simulator.loading.documents import read_document
from simulator.scenario.changes import with_value
from simulator.scenario.named_parts import read_runtime
from simulator.schedulers.base import Scheduler
from simulator.schedulers.sharded import Sharded
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.advice.availability import (
    TABLE,
    _Quantity,
    availability_of,
    entries_of,
    framework_label,
    lines_of_setting,
)
from simulator.topologies.base import Topology

FAMILIES = {"sparsifier": Sparsifier, "scheduler": Scheduler, "topology": Topology}
SHIPPED = [
    (family, kind)
    for family, base in FAMILIES.items()
    for kind, member in discover(base).items()
    if member.__module__.startswith("simulator.")
]


def place(runtime="runtimes/pytorch-ddp", **parts):
    spec = scenario(**{"topology": "nccl", "scheduler": "bucketed", **parts})
    return availability_of(with_value(spec, "cluster.runtime", read_runtime(runtime)), spec.topology.kind)


def listed_kinds():
    """Families and kinds that have a row in the table."""
    table = read_document(ROOT / TABLE).data
    return {(family, kind) for family in FAMILIES for kind in table[family]}


@pytest.mark.parametrize(("family", "kind"), SHIPPED)
def test_every_shipped_kind_is_listed_with_a_source_or_an_address(family, kind):
    member = example(FAMILIES[family], kind)
    assert (family, kind) in listed_kinds() or isinstance(member, Sharded)  # which states its places itself
    assert entries_of(member) or (family, kind) in listed_kinds()
    for entry in entries_of(member):
        assert entry.where or entry.source or (family, kind) in (("sparsifier", "zen"), ("scheduler", "asc_wfbp"))
        assert all("{" not in line.replace('{"', "").replace(": {", "") for line in entry.lines_for(member))


def test_nothing_is_listed_that_does_not_exist():
    assert listed_kinds() <= set(SHIPPED)


@pytest.mark.parametrize(
    ("parts", "where", "line"),
    [
        (
            {"sparsifier": "dense", "scheduler": {"kind": "bucketed", "bucket_size": "32 MiB"}},
            "PyTorch DDP",
            "model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=32)",
        ),
        (
            {"sparsifier": {"kind": "powersgd", "rank": 2}},
            "PyTorch DDP",
            "state = hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=1000)",
        ),
        (
            {"sparsifier": "dense", "scheduler": {"kind": "bucketed", "rule": "horovod", "bucket_size": "16 MiB"}},
            "Horovod",
            "export HOROVOD_FUSION_THRESHOLD=16777216 HOROVOD_CYCLE_TIME=5",
        ),
        ({"sparsifier": "dense", "scheduler": "wfbp"}, "Horovod", "export HOROVOD_FUSION_THRESHOLD=0"),
        (
            {"sparsifier": {"kind": "dgc", "density": 0.001}},
            "PaddlePaddle",
            'strategy.dgc_configs = {"rampup_begin_step": 0, "sparsity": [0.999]}',
        ),
        (
            {"sparsifier": "dense", "scheduler": {"kind": "priority", "partition": "4 MB", "credit": "16 MB"},
             "topology": {"kind": "parameter_server", "servers": 0}},
            "BytePS",
            "export BYTEPS_PARTITION_BYTES=4000000 BYTEPS_SCHEDULING_CREDIT=4",
        ),
    ],
)  # fmt: skip
def test_lines_of_configuration_carry_the_parameters(parts, where, line):
    made = place(**parts)
    assert made.where == where and line in made.lines
    assert made.status == ("offered" if where == "PyTorch DDP" else "other_framework") and made.sources


def test_without_a_stated_framework_any_released_one_counts():
    assert availability_of(scenario(sparsifier="powersgd", scheduler="bucketed", topology="nccl")).status == "offered"


@pytest.mark.parametrize(
    ("parts", "where"),
    [
        ({"sparsifier": "dense", "scheduler": "mg_wfbp"}, "HKBU-HPML/MG-WFBP"),
        ({"sparsifier": {"kind": "micro", "density": 0.01}}, "kljp/micro"),
        ({"sparsifier": {"kind": "micro", "density": 0.01}, "scheduler": "tictac"}, "xldrx/tictac and kljp/micro"),
        ({"sparsifier": {"kind": "zen", "density": 0.01}}, "no public code"),
    ],
)
def test_what_only_papers_have_is_marked(parts, where):
    made = place(**parts)
    assert (made.status, made.where) == ("research_code", where) and made.lines == ()


def test_lines_that_act_on_the_gradients_of_every_step_are_none_of_local_steps():
    """DDP's communication hooks see buckets of gradients; its model averaging, and DiLoCo, exchange parameters."""
    steps = {"kind": "local_sgd", "inner_steps": 8}
    assert place(sparsifier="dense", scheduler=steps).status == "offered"
    assert place(sparsifier="powersgd", scheduler=steps).status == "research_code"
    travels = with_value(scenario(sparsifier="dense", scheduler="bucketed"), "workload.precision.travels", "fp16")
    assert "fp16_compress_hook" in lines_of_setting("travels", travels)[1]
    assert (
        lines_of_setting(
            "travels",
            scenario(sparsifier="dense", scheduler={"kind": "diloco", "inner_steps": 8}, workload=travels.workload),
        )
        == ()
    )


def test_a_textbook_topology_is_given_where_the_cluster_has_it_and_no_code_elsewhere():
    assert place(sparsifier="dense", topology="halving_doubling").status == "offered"
    spec = scenario(sparsifier="dense", scheduler="bucketed", topology="halving_doubling")
    assert availability_of(spec, "nccl").status == "research_code"


@pytest.fixture
def plug_in():
    """A member whose author states where it exists, and one whose author does not."""

    class Mine(Component, family="sparsifier_of_a_test"):
        """A family of its own."""

    class Stated(Mine, kind="stated"):
        """Stated."""

        availability: ClassVar = (
            {"in": "pytorch-ddp", "lines": ["model.register_comm_hook(None, mine)"], "source": "docs"},
        )

    class Silent(Mine, kind="silent"):
        """Silent."""

    return Stated(), Silent()


def test_a_plug_in_states_where_it_exists_and_is_unknown_otherwise(plug_in):
    stated, silent = plug_in
    (entry,) = entries_of(stated)
    assert entry.lines_for(stated) == ["model.register_comm_hook(None, mine)"]
    assert entries_of(silent) is None
    spec = scenario(sparsifier="dense", scheduler="bucketed", topology="nccl")
    unknown = availability_of(spec.model_copy(update={"sparsifier": silent}))
    assert (unknown.status, unknown.where) == ("unknown", "unknown: silent")
    known = availability_of(spec.model_copy(update={"sparsifier": stated}))
    assert (known.status, known.where, known.lines[-1]) == ("offered", "PyTorch DDP", entry.lines[0])


def test_frameworks_have_the_labels_that_results_use():
    assert framework_label("pytorch-ddp") == "PyTorch DDP" and framework_label("none") == "any framework"


def test_parameters_are_shown_in_the_unit_of_the_line():
    shown = {unit: format(_Quantity(5 * 2**20), unit) for unit in ("MiB", "bytes", "elements", "")}
    assert shown == {"MiB": "5", "bytes": "5242880", "elements": "1310720", "": "5242880"}
    assert (f"{_Quantity(0.0125):ms}", f"{_Quantity(1e-4):g}", f"{_Quantity(None):MiB}") == ("12.5", "0.0001", "0")
