"""Chakra execution traces in their three JSON forms."""

import json

import pytest
from synthetic_logs import write

from simulator.traces.readers.chakra import read_chakra

CONVERTED = [
    {"attr": [{"name": "schema", "stringVal": "1.1.0"}]},
    {"id": "1", "name": "gemm", "type": "COMP_NODE", "durationMicros": "125", "dataDeps": ["0"]},
    {"id": "2", "name": "load", "type": "MEM_LOAD_NODE"},
    {
        "id": "3",
        "name": "all-reduce",
        "type": "COMM_COLL_NODE",
        "ctrlDeps": ["1"],
        "attr": [{"name": "comm_type", "int64Val": "0"}, {"name": "comm_size", "int64Val": "1048576"}],
    },
    {"id": "4", "type": "COMM_COLL_NODE", "attr": [{"name": "comm_type", "int64Val": "7"}]},
    {"id": "5", "name": "p", "type": "COMM_SEND_NODE", "attr": [{"name": "comm_size", "int64Val": "64"}]},
]
FED = {
    "workload_graph": [
        {"Id": 0, "Name": "c", "NodeType": 4, "runtime": 7, "data_deps": []},
        {"Id": 1, "Name": "g", "NodeType": 7, "comm_type": 2, "comm_size": 4096, "data_deps": [0]},
    ]
}
OBSERVED = {
    "schema": "1.1.0-chakra.0.0.4",
    "pid": 1,
    "nodes": [
        {"id": 1, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 0, "attrs": []},
        {
            "id": 2,
            "name": "record_param_comms",
            "ctrl_deps": 1,
            "inputs": {"values": [], "shapes": [], "types": []},
            "exclusive_dur": 30,
            "attrs": [
                {"name": "collective_name", "type": "string", "value": "_allgather_base"},
                {"name": "dtype", "type": "string", "value": "Float"},
                {"name": "in_msg_nelems", "type": "uint64", "value": 100},
                {"name": "out_msg_nelems", "type": "uint64", "value": 400},
                {"name": "pg_size", "type": "uint64", "value": 4},
            ],
        },
        {"id": 3, "name": "gemm", "ctrl_deps": 1, "cat": "kernel", "exclusive_dur": 12.5, "attrs": []},
    ],
}


def test_objects_one_after_another_as_the_jsonizer_writes_them(tmp_path):
    trace = read_chakra(write(tmp_path / "t.json", "".join(json.dumps(item, indent=2) for item in CONVERTED)))
    assert trace.problems == ()
    assert [(node.id, node.kind, node.collective, node.nbytes) for node in trace.parts] == [
        (1, "compute", "", 0),
        (3, "collective", "all_reduce", 1_048_576),
        (4, "collective", "reduce_scatter", 0),
        (5, "send", "", 64),
    ]
    assert trace.parts[0].seconds == pytest.approx(125e-6)
    assert (trace.parts[0].waits_for, trace.parts[1].waits_for) == ((0,), (1,))


def test_a_first_object_that_is_a_node_counts(tmp_path):
    path = write(tmp_path / "t.json.gz", "".join(json.dumps(item) for item in CONVERTED[1:]))
    assert len(read_chakra(path).parts) == 4


def test_the_feeders_graph(tmp_path):
    nodes = read_chakra(write(tmp_path / "t.json", json.dumps(FED))).parts
    assert [(node.kind, node.collective, node.nbytes, node.waits_for) for node in nodes] == [
        ("compute", "", 0, ()),
        ("collective", "all_gather", 4096, (0,)),
    ]


def test_what_pytorch_observes(tmp_path):
    gather, kernel = read_chakra(write(tmp_path / "t.json", json.dumps(OBSERVED))).parts
    assert (gather.collective, gather.nbytes, gather.group) == ("all_gather", 1600, 4)
    assert gather.seconds == pytest.approx(30e-6)
    assert (kernel.kind, kernel.seconds) == ("compute", pytest.approx(12.5e-6))


def test_damage_is_named_and_the_rest_stays(tmp_path):
    nodes = [*FED["workload_graph"], {"NodeType": 4, "Id": "x"}, {"NodeType": 7, "Id": 3, "comm_type": 99}, 5]
    trace = read_chakra(write(tmp_path / "t.json", json.dumps({"workload_graph": nodes})))
    assert len(trace.parts) == 2
    assert [problem.where.split(": ")[1] for problem in trace.problems] == ["node 3", "node 4", "node 5"]
    cut = read_chakra(write(tmp_path / "cut.json", json.dumps(FED, indent=1)[:-40]))
    assert len(cut.parts) == 1 and cut.problems[0].where.startswith(f"{tmp_path / 'cut.json'}:")


@pytest.mark.parametrize("waits", [{1: 1}, {1: 2, 2: 3, 3: 1}])
def test_nodes_that_wait_for_themselves_are_named(tmp_path, waits):
    nodes = [{"NodeType": 4, "Id": node, "runtime": 1, "data_deps": [other]} for node, other in waits.items()]
    (problem,) = read_chakra(write(tmp_path / "t.json", json.dumps({"workload_graph": nodes}))).problems
    assert all(f"{node} waits for {other}" in str(problem) for node, other in waits.items())


def test_other_json_holds_no_nodes(tmp_path):
    assert read_chakra(write(tmp_path / "t.json", '{"a": 1}')).problems


def test_one_object_alone_is_a_node_and_what_follows_the_nodes_is_no_node(tmp_path):
    (node,) = read_chakra(write(tmp_path / "t.json", json.dumps(CONVERTED[1]))).parts
    assert (node.kind, node.name) == ("compute", "gemm")
    after = read_chakra(write(tmp_path / "a.json", json.dumps(OBSERVED | {"finish_ts": 7})))
    assert (len(after.parts), after.problems) == (2, ())


def test_nodes_of_the_feeder_that_neither_compute_nor_communicate_are_passed_over(tmp_path):
    graph = {"workload_graph": [{"Id": 9, "Name": "m", "NodeType": 1}, *FED["workload_graph"]]}
    trace = read_chakra(write(tmp_path / "t.json", json.dumps(graph)))
    assert ([node.id for node in trace.parts], trace.problems) == ([0, 1], ())


@pytest.mark.parametrize("change", [{"runtime": -1}, {"runtime": 1e30}, {"comm_size": -4}, {"comm_size": 2**63}])
def test_times_and_sizes_that_cannot_be_are_named(tmp_path, change):
    graph = {"workload_graph": [*FED["workload_graph"], FED["workload_graph"][1] | change]}
    trace = read_chakra(write(tmp_path / "t.json", json.dumps(graph)))
    assert len(trace.parts) == 2
    (problem,) = trace.problems
    assert (problem.where, problem.expected) == (f"{tmp_path / 't.json'}: node 3", "a node of a Chakra trace")


@pytest.mark.parametrize(
    ("name", "found"),
    [("allreduce_coalesced", "all_reduce"), ("_reduce_scatter_base", "reduce_scatter"), ("wait", "unknown")],
)
def test_collectives_by_pytorchs_names(tmp_path, name, found):
    text = json.dumps(OBSERVED).replace("_allgather_base", name)
    assert read_chakra(write(tmp_path / "t.json", text)).parts[0].collective == found
