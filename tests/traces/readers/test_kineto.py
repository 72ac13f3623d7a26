"""PyTorch profiler traces: gradients by autograd node, messages of NCCL, damage, and memory."""

import csv
import json
import sys

import pytest
import yaml
from command_line import run_python
from synthetic_logs import kineto_trace, write_json

from simulator.errors import InputError
from simulator.loading.csv_tables import read_layers
from simulator.traces.readers.kineto.reader import read_kineto
from simulator.traces.readers.kineto.workload import import_kineto, report_of

SIZES = (1000, 64_000, 128, 128, 36_864)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
@pytest.mark.parametrize("older", [False, True])
def test_gradients_are_ready_when_the_last_kernel_of_their_node_has_ended(tmp_path, name, older):
    trace = read_kineto(write_json(tmp_path / name, kineto_trace(sizes=SIZES, older=older)))
    assert trace.problems == () and (trace.device, trace.workers) == ("Test GPU", 2)
    assert len(trace.passes) == 2
    for found in trace.passes:
        assert [item.numel for item in found] == list(SIZES)
        assert [item.ready for item in found] == pytest.approx([100e-6 * (i + 1) for i in range(len(SIZES))], abs=1e-9)
        assert [item.forward for item in found] == pytest.approx([40e-6] * len(SIZES), abs=1e-9)
        assert {item.name for item in found} == {"AddmmBackward" if older else "AddmmBackward0"}


def test_sizes_come_from_the_copies_of_ddp_where_shapes_were_not_recorded(tmp_path):
    trace = read_kineto(write_json(tmp_path / "t.json", kineto_trace(sizes=SIZES, shapes=False, ddp=True)))
    assert [item.numel for item in trace.gradients] == [*SIZES, *SIZES]


def test_without_sizes_they_are_0_and_cannot_be_imported(tmp_path):
    path = write_json(tmp_path / "t.json", kineto_trace(sizes=SIZES, shapes=False))
    assert {item.numel for item in read_kineto(path).gradients} == {0}
    with pytest.raises(InputError, match="record_shapes=True"):
        import_kineto([path], tmp_path / "out", 32)


def test_nccl_kernels_have_the_size_of_the_operation_that_launched_them(tmp_path):
    messages = [(8_196_000, 250.0), (31_502_336, 900.0)]
    trace = read_kineto(write_json(tmp_path / "t.json", kineto_trace(nccl=messages, steps=1)))
    expected = [("all_reduce", nbytes, 2) for nbytes, _ in messages]
    assert [(item.collective, item.nbytes, item.workers) for item in trace.collectives] == expected
    assert [item.seconds for item in trace.collectives] == pytest.approx([250e-6, 900e-6])


def test_nccl_kernels_that_say_their_size_themselves(tmp_path):
    args = {"correlation": 1, "In msg nelems": 100, "Out msg nelems": 800, "dtype": "BFloat16", "Group size": 8}
    kernel = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllGather_RING_LL(ncclDevComm*)", "pid": 0, "tid": 7}
    trace = {"traceEvents": [kernel | {"ts": 5.0, "dur": 50.5, "args": args}]}
    (item,) = read_kineto(write_json(tmp_path / "t.json", trace)).collectives
    assert (item.collective, item.nbytes, item.workers) == ("all_gather", 1600, 8)
    assert item.seconds == pytest.approx(50.5e-6)


def in_type(trace, name, of=("torch::autograd::AccumulateGrad", "nccl:all_reduce")):
    """A trace whose operations of these names have tensors of another type."""
    for event in trace["traceEvents"]:
        if event["name"] in of:
            event["args"]["Input type"] = [name]
    return trace


def workload_of(tmp_path, trace):
    out = tmp_path / "out"
    made = import_kineto([write_json(tmp_path / "t.json", trace)], out, 32)
    return made, yaml.safe_load((out / "workload.yaml").read_text())


@pytest.mark.parametrize(("name", "number"), [("c10::BFloat16", "bf16"), ("c10::Half", "fp16"), ("float", "fp32")])
def test_the_type_of_the_gradients_is_the_precision_of_the_workload(tmp_path, name, number):
    trace = in_type(kineto_trace(sizes=(2**19, 2**18), nccl=[(4 * (2**19 + 2**18), 50.0)]), name)
    made, text = workload_of(tmp_path, trace)
    assert (text["precision"], text["measured_precision"]) == (number, number)
    # 2^19 elements fill the first bucket of 1 MiB in either type, 2^18 do not in 16 bits, nor are they 25 MiB.
    assert "make buckets of [524288, 262144] elements" in text["source"]
    assert {item.nbytes for item in made.collectives} == {(2 if number != "fp32" else 4) * (2**19 + 2**18)}


def test_gradients_that_travel_in_16_bits_are_told_from_those_that_are_so(tmp_path):
    trace = in_type(kineto_trace(sizes=(1000,), nccl=[(4000, 50.0)]), "c10::BFloat16", ("nccl:all_reduce",))
    assert workload_of(tmp_path, trace)[1]["precision"] == {"gradients": "fp32", "travels": "bf16"}


def test_a_trace_that_states_no_type_says_so_and_names_what_slows_it(tmp_path):
    trace = kineto_trace(sizes=(1000,), shapes=False, ddp=True) | {"with_stack": 1, "profile_memory": 0}
    made, text = workload_of(tmp_path, trace)
    assert "precision" not in text
    warnings = report_of(made)["warnings"]
    assert "the trace does not state the type of its gradients" in warnings[0]
    assert "recorded with with_stack, which" in warnings[1]


def test_copies_of_buckets_in_16_bits_have_twice_the_elements(tmp_path):
    trace = in_type(kineto_trace(sizes=SIZES, shapes=False, ddp=True, nccl=[(4096, 9.0)]), "c10::Half")
    for event in trace["traceEvents"]:
        if "bytes" in event["args"]:
            event["args"]["bytes"] //= 2
    found = read_kineto(write_json(tmp_path / "t.json", trace))
    assert [item.numel for item in found.gradients] == [*SIZES, *SIZES] and found.gradients_in == "fp16"


@pytest.mark.parametrize(
    ("kernel", "asked", "collective"),
    [
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "_reduce_scatter_base", "reduce_scatter"),
        ("ncclDevKernel_Generic(ncclDevComm*)", "_allgather_base", "all_gather"),
        ("rcclGenericKernel(ncclDevComm*)", "allreduce", "all_reduce"),
        ("mscclKernel_Sum_half_Simple(ncclDevComm*)", "allreduce_coalesced", "all_reduce"),
        ("ncclDevKernel_SendRecv(ncclDevComm*)", "all_to_allv", "all_to_all"),
        ("ncclDevKernel_SendRecv(ncclDevComm*)", "", "send_receive"),
        ("ncclDevKernel_Generic(ncclDevComm*)", "", "unknown"),
    ],
)
def test_kernels_that_serve_several_collectives_are_named_by_their_arguments(tmp_path, kernel, asked, collective):
    args = {"correlation": 1, "In msg nelems": 100, "Out msg nelems": 800, "dtype": "Half", "Collective name": asked}
    event = {"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 7, "ts": 5.0, "dur": 50.5, "args": args}
    (item,) = read_kineto(write_json(tmp_path / "t.json", {"traceEvents": [event]})).collectives
    assert (item.collective, item.nbytes, item.number) == (collective, 1600, "fp16")


@pytest.mark.parametrize(
    ("share", "words"), [(1, "set `scheduler` to `fsdp`"), (4, "times 4 the sizes of layers.csv, 2,000")]
)
def test_gathers_and_scatters_of_a_sharded_job_are_named(tmp_path, share, words):
    """Two tensors with 8,000 elements together, whole or a quarter of them, on 4 ranks; sums of all in fp32."""
    trace = kineto_trace(sizes=(6000 // share, 2000 // share), steps=3)
    for name, parts in (("all_gather", (2000, 8000)), ("reduce_scatter", (8000, 2000))):
        for step in range(3):
            args = {"correlation": 900, "In msg nelems": parts[0], "Out msg nelems": parts[1], "dtype": "Float"}
            args |= {"Collective name": f"_{name}_base", "Group size": 4}
            kernel = "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)"
            event = {"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 9, "dur": 50.0}
            trace["traceEvents"].append(event | {"ts": 1e6 + 1e5 * step, "args": args})
    (said,) = [text for text in report_of(workload_of(tmp_path, trace)[0])["warnings"] if "sharded" in text]
    assert "all-gathers have 96,000 B in all, its reduce-scatters 8,000 elements a pass" in said and words in said
    assert ("times" in said) == (share > 1)


def test_a_trace_becomes_a_workload_that_scenarios_can_name(tmp_path):
    path = write_json(tmp_path / "model.pt.trace.json.gz", kineto_trace(sizes=SIZES, steps=4, nccl=[(1024, 5.0)]))
    import_kineto([path], tmp_path / "out", 32)
    layers = read_layers(tmp_path / "out" / "layers.csv", times_needed=True)
    assert [layer.numel for layer in layers] == list(reversed(SIZES))
    assert [layer.backward for layer in layers] == [0.0001] * len(SIZES)
    with (tmp_path / "out" / "gradient_ready.csv").open() as file:
        places = [(int(row["iteration"]), int(row["order"])) for row in csv.DictReader(file)]
    assert places == [(iteration, order) for iteration in range(4) for order in range(len(SIZES))]
    assert (tmp_path / "out" / "collectives.csv").read_text().count("\n") == 1 + 4


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.9])
def test_a_trace_cut_short_says_where_and_keeps_what_is_whole(tmp_path, cut):
    text = json.dumps(kineto_trace(steps=3), indent=1)
    path = tmp_path / "t.json"
    path.write_text(text[: int(len(text) * cut)])
    trace = read_kineto(path)
    assert trace.gradients
    (problem,) = trace.problems
    file, _, line = problem.where.rpartition(":")
    assert file == str(path) and 1 < int(line) <= len(path.read_text().splitlines())
    assert "the end of the file" in problem.got


def test_malformed_events_are_named_and_the_others_stay(tmp_path):
    data = kineto_trace(steps=1)
    whole = len(read_kineto(write_json(tmp_path / "whole.json", data)).gradients)
    data["traceEvents"] += [
        {"ph": "X", "cat": "kernel", "name": "k", "ts": "soon", "dur": 1},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 1.0},
        {"ph": "X", "cat": "cpu_op", "name": "k", "ts": 1.0, "dur": -1},
        17,
    ]
    trace = read_kineto(write_json(tmp_path / "t.json", data))
    assert len(trace.gradients) == whole
    count = len(data["traceEvents"])
    places = [f"{tmp_path / 't.json'}: event {number}" for number in range(count - 3, count + 1)]
    assert [problem.where for problem in trace.problems] == places


def test_events_that_say_nothing_of_gradients_change_nothing(tmp_path):
    data = kineto_trace(steps=2, nccl=[(4096, 20.0)])
    whole = read_kineto(write_json(tmp_path / "whole.json", data))
    first = {"ph": "X", "pid": 1, "tid": 1, "ts": 10.0, "dur": 1}
    data["traceEvents"] += [
        {"ph": "M", "name": "process_name", "args": {"name": "python"}},
        first | {"cat": "python_function", "name": "train.py(7): main"},
        first | {"cat": "cuda_runtime", "name": "cudaDeviceSynchronize"},
        first | {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "args": {"bytes": 4096}},
        first | {"cat": "cpu_op", "name": "aten::empty"},
        first | {"cat": "cpu_op", "name": "torch::autograd::AccumulateGrad"},
    ]
    trace = read_kineto(write_json(tmp_path / "t.json", data))
    assert (trace.gradients, trace.collectives, trace.problems) == (whole.gradients, whole.collectives, ())


def test_the_first_tensor_among_the_inputs_is_the_one_that_counts(tmp_path):
    data = kineto_trace(steps=1, nccl=[(4096, 20.0)])
    for event in data["traceEvents"]:
        if event["name"] == "nccl:all_reduce":
            event["args"] = {"Input Dims": [[], "", [8, 128], [2]], "Input type": ["Scalar", "", "double", "float"]}
    (item,) = read_kineto(write_json(tmp_path / "t.json", data)).collectives
    assert item.nbytes == 8 * 128 * 8


def test_a_number_of_workers_that_is_none_is_named(tmp_path):
    data = kineto_trace(steps=1) | {"distributedInfo": {"world_size": "many"}}
    trace = read_kineto(write_json(tmp_path / "t.json", data))
    (problem,) = trace.problems
    assert str(problem) == f"{tmp_path / 't.json'}: distributedInfo: world_size: expected a whole number, got 'many'"
    assert (trace.workers, len(trace.gradients)) == (0, len(SIZES))


def test_no_more_than_twenty_problems_are_named(tmp_path):
    data = kineto_trace(steps=1)
    data["traceEvents"] += [17] * 30
    assert len(read_kineto(write_json(tmp_path / "t.json", data)).problems) == 20


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"traceEvents": []}', "no json", "[1"])
def test_what_holds_no_events_is_an_input_error(tmp_path, text):
    (tmp_path / "t.json").write_text(text)
    try:
        trace = read_kineto(tmp_path / "t.json")
    except InputError as error:
        assert str(tmp_path / "t.json") in str(error)
    else:
        assert trace.problems and not trace.gradients


_READ = """
import resource, sys
from pathlib import Path
from simulator.traces.readers.kineto.reader import read_kineto
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
trace = read_kineto(Path(sys.argv[1]))
print(len(trace.gradients), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux")
def test_memory_grows_by_less_than_the_trace(tmp_path):
    """Events go by one at a time: 30 MB of them take less than half of that, most of it columns of numbers."""
    events = kineto_trace(steps=2)["traceEvents"]
    padding = {"External id": 1, "Call stack": "x" * 400}
    text = ",\n".join(json.dumps(event | {"args": event["args"] | padding}) for event in events)
    path = tmp_path / "t.json"
    with path.open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n' + text)
        while file.tell() < 30e6:
            file.write(",\n" + text)
        file.write("]}")
    gradients, grown = map(int, run_python("-c", _READ, path).stdout.split())
    assert gradients > 0
    assert grown < 15_000
