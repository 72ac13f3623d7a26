"""Steps of a profile: what the GPU and the host did in them, and the workload that this makes."""

import pytest
from command_line import answered, invoke, printed
from synthetic_logs import kineto_trace, write_json
from synthetic_profiles import profiled_steps

from simulator.errors import InputError
from simulator.loading.csv_tables import read_layers
from simulator.models.optimisers import Optimiser
from simulator.prediction.run import run
from simulator.records import replace
from simulator.scenario.scenario import Scenario
from simulator.traces.readers.imports import import_file
from simulator.traces.readers.kineto.reader import read_kineto, recognise_optimiser
from simulator.traces.readers.kineto.steps import choose_steps, parse_steps

HOST_BOUND = [(1000, 400, 500, 3000, 2000)] * 6
"""Six layers of 0.4 + 0.5 ms on the GPU, which the host launches in 3 + 2 ms."""
GPU_BOUND = [(1000, 4000, 5000, 500, 400)] * 6
MIXED = [(1000, 400, 5000, 3000, 500)] * 6
"""The forward pass waits for the host, the backward pass does not."""
US = 1e-6


def imported(folder, *ranks, **more):
    names = ["t.json", *(f"t{number}.json" for number in range(1, len(ranks)))]
    files = [write_json(folder / name, trace) for name, trace in zip(names, ranks, strict=True)]
    return import_file("kineto", files, folder / "out", 8, None, **more)


def scenario_of(workload):
    """A workload as it is written in a scenario, on one GPU."""
    network = {"kind": "single_switch", "bandwidth": "1 Tbit/s"}
    scenario = {
        "workload": workload,
        "cluster": {"nodes": 1, "gpu": {"name": "ideal", "ideal": True}, "network": network},
        "topology": "ring",
        "sparsifier": "dense",
        "scheduler": "wfbp",
    }
    return Scenario.model_validate(scenario)


def load_workload(folder):
    return scenario_of(str(folder / "out" / "workload.yaml")).workload


def result(workload, **changes):
    """An iteration of a workload with some of its fields changed."""
    made = scenario_of(workload)
    return run(made.model_copy(update={"workload": made.workload.model_copy(update=changes)})).document


def predicted(folder, **changes):
    """Seconds of an iteration of what was imported."""
    return result(str(folder / "out" / "workload.yaml"), **changes)["iteration_time_s"]


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("layers", [HOST_BOUND, GPU_BOUND, MIXED])
@pytest.mark.parametrize(("loading", "copy"), [(0, 0), (8000, 1000)])
def test_the_predicted_iteration_is_the_wall_time_of_a_step(tmp_path, layers, waits, loading, copy):
    """A queue followed kernel by kernel, against the two clocks by layer: 2 %, and with compute_time exactly."""
    trace, ended = profiled_steps(layers, steps=7, waits=waits, loading=loading, copy=copy, update=(300, 200))
    report = imported(tmp_path, trace).report
    # Without anything that waits, the host runs away from a GPU that is slower: only then the GPU's time counts.
    clock = int(not waits and not copy and layers != HOST_BOUND)
    step = (ended[-1][clock] - ended[0][clock]) / 6 * US
    assert report["step_s"] == pytest.approx(step, rel=1e-3)
    assert predicted(tmp_path) == pytest.approx(step, rel=1e-3)
    assert predicted(tmp_path, compute_time=None) == pytest.approx(step, rel=0.02)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("layers", [HOST_BOUND, GPU_BOUND, MIXED])
@pytest.mark.parametrize("named", [True, False])
def test_the_passes_of_a_step_are_its_micro_batches(tmp_path, layers, waits, named):
    """The model is that of one pass; the step takes its wall time, also where the host launches four times as much."""
    trace, ended = profiled_steps(layers, steps=7, waits=waits, loading=800, copy=100, update=(300, 200), passes=4)
    if not named:
        trace["traceEvents"] = [item for item in trace["traceEvents"] if "ProfilerStep" not in item["name"]]
    report, workload = imported(tmp_path, trace).report, load_workload(tmp_path)
    step = (ended[-1][0] - ended[0][0]) / 6 * US
    assert (len(workload.layers), workload.micro_batches, workload.batch_size) == (6, 4, 8)
    assert report["step_s"] == pytest.approx(step, rel=1e-3)
    assert predicted(tmp_path) == pytest.approx(step, rel=2e-3)
    assert predicted(tmp_path, compute_time=None) == pytest.approx(step, rel=0.02)
    whole, _ = profiled_steps(layers, steps=7, waits=waits, loading=800, copy=100, update=(300, 200))
    imported(tmp_path, whole)
    for each, one in zip(workload.layers, load_workload(tmp_path).layers, strict=True):
        assert (each.backward, each.backward_host) == pytest.approx((4 * one.backward, one.backward_host), rel=0.02)


def test_a_batch_that_cannot_be_cut_into_the_passes_of_a_step_is_refused(tmp_path):
    trace, _ = profiled_steps(GPU_BOUND, passes=3)
    with pytest.raises(InputError, match=r"--batch-size: expected a multiple of 3, the passes of a step of .*, got 8"):
        imported(tmp_path, trace)


@pytest.mark.parametrize("named", [True, False])
def test_activations_that_are_computed_again_begin_no_pass(tmp_path, named):
    trace, _ = profiled_steps(GPU_BOUND, steps=4, passes=2, again=True)
    if not named:
        trace["traceEvents"] = [item for item in trace["traceEvents"] if "ProfilerStep" not in item["name"]]
    found = read_kineto(write_json(tmp_path / "t.json", trace)).passes
    assert [len(each) for each in found] == [6] * 8


def test_unlike_passes_of_a_step_count_as_one(tmp_path):
    """As where two losses have parameters of their own."""
    trace, _ = profiled_steps(GPU_BOUND, steps=4, passes=2)
    last = [item for item in trace["traceEvents"] if "AccumulateGrad" in item["name"]][6:12]
    for item in last:
        item["args"]["Input Dims"] = [[5]]
    found = read_kineto(write_json(tmp_path / "t.json", trace)).passes
    assert [len(each) for each in found] == [12, *[6] * 6]


def test_the_parts_of_a_host_bound_step(tmp_path):
    """Each kernel waits for its launch: 5.4 + 0.3 ms of work in 30 + 0.2 ms of launches, after 8 + 1 ms of loading."""
    trace, _ = profiled_steps(HOST_BOUND, loading=8000, copy=1000, update=(300, 200))
    report = imported(tmp_path, trace).report
    step = 9000 + 30_000 + 300
    assert report["wall_s"] == pytest.approx(step * US, rel=0.005)
    assert report["gpu_use"] == pytest.approx(5700 / step, rel=0.01)
    assert report["data_loading_s"] == pytest.approx(9000 * US, rel=0.01)
    assert report["host_bound"] == pytest.approx(1 - (9000 + 5700) / step, rel=0.01)
    assert report["forward_gpu_s"] == pytest.approx(2400 * US, rel=0.01)
    assert report["backward_gpu_s"] == pytest.approx(3000 * US, rel=0.01)
    assert report["forward_host_s"] == pytest.approx(18_000 * US, rel=0.01)
    assert report["backward_host_s"] == pytest.approx(12_000 * US, rel=0.01)
    assert report["optimiser_gpu_s"] == pytest.approx(300 * US, rel=0.01)
    assert report["optimiser_host_s"] == pytest.approx(200 * US, rel=0.01) and report["host_waits"]
    assert f"the profile is host-bound: the GPU works {570_000 / step:.0f} % of the step" in report["warnings"][0]
    assert f"the GPU waits {900_000 / step:.0f} % of the step for data" in report["warnings"][1]


def test_where_the_gpu_never_waits_gradients_are_ready_as_its_clock_says(tmp_path):
    """The queue has room for 40 of a step's 120 kernels, so that nearly every launch waits."""
    trace, _ = profiled_steps(GPU_BOUND, steps=8, waits=False, room=40)
    report = imported(tmp_path, trace).report
    assert report["warnings"] == [] and not report["host_waits"]
    assert report["wall_s"] == pytest.approx(54e-3, rel=1e-3)
    layers = read_layers(tmp_path / "out" / "layers.csv", times_needed=True)
    assert [layer.backward for layer in layers] == pytest.approx([5000 * US] * 6, abs=1e-9)
    assert [layer.forward for layer in layers] == pytest.approx([4000 * US] * 6, abs=1e-9)
    assert sum(layer.backward_host for layer in layers) == pytest.approx(6 * 400 * US, rel=0.1)
    free, _ = profiled_steps(GPU_BOUND, waits=False)
    assert "the host ran ahead of the GPU" in imported(tmp_path, free).report["warnings"][0]


def test_a_faster_gpu_shortens_only_its_own_part(tmp_path):
    trace, _ = profiled_steps(HOST_BOUND)
    imported(tmp_path, trace)
    layers = read_layers(tmp_path / "out" / "layers.csv", times_needed=True)
    fast = tuple(replace(layer, forward=0.0, backward=0.0) for layer in layers)
    # 30 ms of launches either way; the last of 60 kernels takes 50 us.
    assert predicted(tmp_path, compute_time=None) == pytest.approx(30e-3, rel=0.01)
    assert predicted(tmp_path, compute_time=None, layers=fast) == pytest.approx(30e-3, rel=0.01)


def test_what_the_host_does_after_the_last_gradient_does_not_stretch_the_layers(tmp_path):
    """After 18 ms of forward launches the GPU computes for 30 ms, the host launches for 3 + 40 ms."""
    trace, _ = profiled_steps(MIXED, update=(100, 40_000))
    imported(tmp_path, trace)
    parts = result(str(tmp_path / "out" / "workload.yaml"))["breakdown_s"]
    assert parts["backward"] == pytest.approx(30e-3, rel=0.01)
    assert parts["update"] == pytest.approx((3 + 40 - 30) * 1e-3, rel=0.05)


@pytest.mark.parametrize(
    ("name", "optimiser"),
    [
        ("SGD", Optimiser(kind="momentum")),
        ("SGD", Optimiser(kind="momentum", weight_decay=True, implementation="foreach")),
        ("SGD", Optimiser(kind="sgd")),
        ("Adam", Optimiser(kind="adam", implementation="foreach")),
        ("FusedAdam", Optimiser(kind="adam", implementation="fused")),
        ("AdamW", Optimiser(kind="adamw", weight_decay=True)),
        ("Lamb", Optimiser(kind="lamb")),
    ],
)
def test_optimisers_are_recognised_by_the_kernels_that_they_launch(name, optimiser):
    sizes = [2_359_296, 512, 512, 64_000, 1000] * 30
    assert recognise_optimiser(name, optimiser.calls(sizes), sizes) == optimiser
    assert recognise_optimiser("Sophia", optimiser.calls(sizes), sizes) is None
    assert recognise_optimiser(name, 100 * optimiser.calls(sizes) + 50, sizes) is None


def test_a_workload_names_the_optimiser_that_its_steps_show(tmp_path):
    """Momentum in a loop over six tensors launches three kernels for each."""
    trace, _ = profiled_steps(HOST_BOUND, update=(180, 360, 18))
    assert imported(tmp_path, trace).report["optimiser"] == "momentum per_tensor"
    assert load_workload(tmp_path).optimiser == Optimiser(kind="momentum")
    trace, _ = profiled_steps(HOST_BOUND, update=(180, 360, 100))
    assert imported(tmp_path, trace).report["optimiser"] == "SGD, whose implementation is not known"


def test_a_larger_batch_takes_longer_on_the_gpu_and_in_the_loader_alone(tmp_path):
    """Eight times the batch: 43.2 ms of work on the GPU instead of 5.4, and 30 ms of launches as before."""
    trace, _ = profiled_steps(HOST_BOUND, loading=800, copy=200)
    imported(tmp_path, trace)
    named = {"trace": str(tmp_path / "out" / "workload.yaml"), "batch_size": 64}
    document = result(named)
    assert document["idle_s"]["data_loading"] == pytest.approx(8e-3, rel=0.01)
    assert document["iteration_time_s"] == pytest.approx(8e-3 + 43.2e-3, rel=0.01)
    assert result({**named, "input_time": "1 ms"})["iteration_time_s"] == pytest.approx(1e-3 + 43.2e-3, rel=0.01)


def test_collectives_that_the_gpu_waits_for_are_no_compute(tmp_path):
    alone, _ = profiled_steps(GPU_BOUND, update=(300, 200))
    together, _ = profiled_steps(GPU_BOUND, update=(300, 200), nccl=7000)
    (tmp_path / "alone").mkdir()
    one, many = imported(tmp_path / "alone", alone).report, imported(tmp_path, together).report
    assert many["wall_s"] == pytest.approx(one["wall_s"] + 7000 * US, rel=1e-6)
    assert many["exposed_collectives_s"] == pytest.approx(7000 * US, rel=1e-6)
    assert many["compute_s"] == pytest.approx(one["compute_s"], rel=1e-6)
    (found,) = many["collectives"]
    assert (found["collective"], found["nbytes"], found["itemsize"], found["stream"]) == ("all_reduce", 2000, 2, 20)
    assert found["per_step"] == 1


def test_collectives_outside_of_the_steps_are_none_of_a_step(tmp_path):
    trace, _ = profiled_steps(GPU_BOUND, steps=4, nccl=7000)
    cut = [item for item in trace["traceEvents"] if not item["name"].startswith(("ProfilerStep#3", "ProfilerStep#5"))]
    (found,) = imported(tmp_path, trace | {"traceEvents": cut}).report["collectives"]
    assert (found["count"], found["per_step"]) == (4, 1)


def test_ranks_of_a_job_are_matched_collective_by_collective(tmp_path):
    """The third rank comes last to every all-reduce: 2 ms is the collective, 7 and 4 ms hold waits of 5 and 2 ms."""
    layers = [GPU_BOUND, [(1000, 4100, 5000, 500, 400)] * 6, [(1000, 4300, 5000, 500, 400)] * 6]
    ranks = [profiled_steps(each, nccl=nccl)[0] for each, nccl in zip(layers, (7000, 4000, 2000), strict=True)]
    report = imported(tmp_path, *ranks).report
    (found,) = report["collectives"]
    assert found["mean_s"] == pytest.approx(2000 * US, rel=1e-6)
    assert found["waited_s"] == pytest.approx((5000 + 2000 + 0) / 3 * US, rel=1e-6)
    assert [row["exposed_collectives_s"] for row in report["ranks"]] == pytest.approx([7e-3, 4e-3, 2e-3], rel=1e-3)
    assert report["file"].endswith("t1.json")  # 4.1 ms is the median
    made = read_layers(tmp_path / "out" / "layers.csv", times_needed=True)
    assert [layer.forward for layer in made] == pytest.approx([4100 * US] * 6, abs=1e-9)
    unlike = imported(tmp_path, ranks[0], profiled_steps(GPU_BOUND)[0])
    assert unlike.rows["collectives.csv"] == 5
    assert "the ranks took part in different collectives" in unlike.report["warnings"][-1]


def test_files_that_are_no_ranks_of_one_job_are_refused(tmp_path):
    traces = [profiled_steps([(numel, 400, 500, 3000, 2000)])[0] for numel in (1000, 2000)]
    with pytest.raises(InputError, match=r"t1\.json: expected the gradients of .*t\.json, a rank of the same job"):
        imported(tmp_path, *traces)
    with pytest.raises(InputError, match="expected one file of kind osu, got 2 files"):
        import_file("osu", [tmp_path / "a", tmp_path / "b"], tmp_path / "out", 1, 2)


def test_one_rank_given_twice_is_refused(tmp_path):
    trace, _ = profiled_steps(GPU_BOUND)
    of = [trace | {"distributedInfo": {"rank": rank, "world_size": 2}} for rank in (0, 1)]
    imported(tmp_path, *of)
    with pytest.raises(InputError, match=r"t1\.json: expected another rank of the job, got that of .*t\.json again"):
        imported(tmp_path, of[0], of[0])
    file = write_json(tmp_path / "t.json", trace)
    with pytest.raises(InputError, match="another rank"):
        import_file("kineto", [file, file], tmp_path / "out", 8, None)


def test_a_stream_that_the_trace_does_not_name_has_none(tmp_path):
    trace, _ = profiled_steps(GPU_BOUND, nccl=7000)
    for event in trace["traceEvents"]:
        event.get("args", {}).pop("stream", None)
    (found,) = imported(tmp_path, trace).report["collectives"]
    assert found["stream"] is None and "-1" not in (tmp_path / "out" / "collectives.csv").read_text()


def test_warm_up_and_outliers_are_left_out_unless_they_are_asked_for(tmp_path):
    trace, _ = profiled_steps(HOST_BOUND, steps=8, slow=(0, 4))
    report = imported(tmp_path, trace).report
    assert report["steps_found"] == [3, 4, 5, 6, 7, 8, 9, 10] and report["steps_used"] == [4, 5, 6, 8, 9, 10]
    assert imported(tmp_path, trace, steps="7, 9-10").report["steps_used"] == [7, 9, 10]
    assert imported(tmp_path, trace, steps="7").report["wall_s"] == pytest.approx(report["wall_s"] + 0.1, rel=0.01)
    with pytest.raises(InputError, match=r"a whole backward pass of t\.json: 3, 4, 5, 6, 7, 8, 9, 10, got 2-4,20"):
        imported(tmp_path, trace, steps="2-4,20")


def test_steps_go_from_batch_to_batch_where_the_profiler_names_none(tmp_path):
    trace, _ = profiled_steps(HOST_BOUND, steps=6, loading=8000)
    named = imported(tmp_path, trace).report
    trace["traceEvents"] = [item for item in trace["traceEvents"] if "ProfilerStep" not in item["name"]]
    report = imported(tmp_path, trace).report
    assert report["steps_found"] == [0, 1, 2, 3, 4] and report["wall_s"] == pytest.approx(named["wall_s"], rel=1e-6)


def test_half_of_the_steps_predict_the_other_half(tmp_path):
    """Steps whose loading differs by up to 2 ms of 38: the medians of one half are within 2 % of those of the other."""
    trace, _ = profiled_steps(MIXED, steps=9, loading=8000)
    first = imported(tmp_path, trace, steps="4-7").report
    later = predicted(tmp_path, compute_time=None)
    assert later == pytest.approx(imported(tmp_path, trace, steps="8-11").report["wall_s"], rel=0.02)
    assert first["compute_from_layers_error"] == pytest.approx(0, abs=0.02)


def test_a_trace_without_steps_says_so_and_has_times_of_layers_only(tmp_path):
    trace = kineto_trace(steps=3)
    trace["traceEvents"] = [item for item in trace["traceEvents"] if "ProfilerStep" not in item["name"]]
    assert "call prof.step()" in imported(tmp_path, trace).report["warnings"][0]
    assert "compute_time" not in (tmp_path / "out" / "workload.yaml").read_text()


@pytest.mark.parametrize("text", ["", "x", "3-", "5-3", "1,,2", "9" * 30, "-1"])
def test_steps_that_are_no_numbers_are_refused(text):
    with pytest.raises(InputError, match="--steps: expected numbers of steps such as 3-5 or 3,5"):
        parse_steps(text)


def test_the_command_says_what_was_found(tmp_path):
    trace, _ = profiled_steps(HOST_BOUND, loading=8000, nccl=50)
    file = write_json(tmp_path / "t.json", trace)
    arguments = ["trace", "import", "kineto", str(file), "--out", str(tmp_path / "out")]
    text = printed(*arguments)
    assert "5 steps, of which 4, 5, 6, 7 are used" in text and "all_reduce" in text
    assert "the profile is host-bound" in text
    document = answered(*arguments)
    assert document["steps_used"] == [4, 5, 6, 7] and document["rows"]["gradient_ready.csv"] == 30
    refused = invoke("trace", "import", "osu", file, "--out", "x", "--steps", "1")
    said = "--steps: expected a file of kind kineto, which has steps, got osu\n"
    assert (refused.exit_code, refused.stderr) == (2, said)


def test_steps_without_a_backward_pass_do_not_count(tmp_path):
    trace, _ = profiled_steps(HOST_BOUND, steps=4)
    begin, end = 9e6, 9.1e6
    span = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#40", "pid": 1, "tid": 1, "ts": begin}
    trace["traceEvents"].append(span | {"dur": end - begin, "args": {}})
    steps = read_kineto(write_json(tmp_path / "t.json", trace)).steps
    assert [step.number for step in choose_steps(steps, "", "t.json")] == [4, 5, 6]
