"""`sparsim calibrate kernels`: from tables of timings to a config of a GPU."""

import numpy as np
import pytest
from command_line import answered, invoke, refused
from synthetic_logs import write

from simulator.calibration.kernels import calibrate_kernels
from simulator.calibration.timings import TimingRows, read_timings
from simulator.hardware.gpu import Gpu
from simulator.loading.documents import read_document

SIZES = [2**i for i in range(10, 29)]
RECORDED = (
    "device,driver,cuda,pytorch,clock_policy,date,kernel,dtype,elements,k,contributions,order,"
    "median_s,p5_s,p95_s,repeats,checked"
)


def row(kernel, elements, seconds, *, dtype="fp32", k="", lists="", order="", checked="True"):
    times = f"{seconds},{0.97 * seconds},{1.03 * seconds},50,{checked}"
    return f"Test GPU,550,12.4,2.5.0,free,2026-01-02,{kernel},{dtype},{elements},{k},{lists},{order},{times}"


def recorded():
    """A table as `record kernels` writes it."""
    rows = [RECORDED]
    for n in SIZES:
        rows += [row("elementwise", n, 5e-6 + 1.5e-11 * n), row("elementwise", n, 1.0, dtype="fp16")]
        rows += [row("sort", n, 1e-5 + 2e-11 * n * np.log2(n))]
        rows += [
            row("topk", n, 2e-5 + 1e-10 * n + 5e-10 * (k := max(1, int(n * share))), k=k) for share in (1e-3, 1e-1)
        ]
        for order in ("sorted", "random"):
            factor = 2 if order == "random" else 1
            rows += [row("gather", n, factor * (4e-6 + 1e-10 * max(1, n // 100)), k=max(1, n // 100), order=order)]
        rows += [row("unique", n, 1e-4 + 1e-9 * n, dtype="int64")]
    return "\n".join(rows) + "\n"


def attempt(*arguments, figure="--no-figure"):
    return invoke("calibrate", "kernels", *arguments, figure)


def calibrate(*arguments):
    return answered("calibrate", "kernels", *arguments, "--no-figure")


def refuse(*arguments):
    return refused("calibrate", "kernels", *arguments, "--no-figure")


def gpu(path):
    return Gpu.model_validate(read_document(path).data, context={"units_required": True})


def test_rows_of_another_format_or_order_are_passed_over(tmp_path):
    """fp16 stands beside fp32, sorted indices beside random ones; int64 has no other format, and names may be long."""
    table = recorded().replace("elementwise,fp32", "elementwise,float32")
    samples = read_timings([write(tmp_path / "k.csv", table)], TimingRows()).samples
    counts = {kernel: sum(item.kernel == kernel for item in samples) for kernel in ("elementwise", "gather", "unique")}
    assert counts == dict.fromkeys(counts, len(SIZES))
    assert max(item.seconds for item in samples if item.kernel == "elementwise") < 1
    (smallest,) = (item for item in samples if item.kernel == "gather" and item.size == 10)
    assert smallest.seconds == pytest.approx(2 * (4e-6 + 1e-9))


@pytest.mark.long
def test_a_recorded_table_becomes_a_gpu(tmp_path):
    out = tmp_path / "gpu.yaml"
    document = calibrate(write(tmp_path / "k.csv", recorded()), "--out", out)
    assert [item["kernel"] for item in document["kernels"]] == ["elementwise", "gather", "sort", "topk", "unique"]
    assert document["software"] == "PyTorch 2.5.0, CUDA 12.4, driver 550"
    made = gpu(out)
    assert made.device == "Test GPU" and made.kernels["elementwise"].curve == "affine"
    for n in (2**14, 3_000_000, 2**28):
        expected = {
            "elementwise": 5e-6 + 1.5e-11 * n,
            "sort": 1e-5 + 2e-11 * n * np.log2(n),
            "topk": 2e-5 + 1e-10 * n + 5e-13 * n,
            "unique": 1e-4 + 1e-9 * n,
        }
        for kernel, seconds in expected.items():
            assert float(made.kernel_time(kernel, n)) == pytest.approx(seconds, rel=0.03)
    assert float(made.kernel_time("gather", 100_000)) == pytest.approx(2 * (4e-6 + 1e-5), rel=0.03)
    for curve in made.kernels.values():
        assert curve.range is not None and curve.held_out_mape < 0.05
        assert curve.spread == pytest.approx(0.06 / 3.29, rel=0.1)
    sort = next(item for item in document["kernels"] if item["kernel"] == "sort")
    assert sort["family"] == "n_log_n"
    for key in ("interpolation", "interpolation_typical", "size_extrapolation", "fitted"):
        assert set(sort[key]) == {"n", "mape", "median_ape", "p95_ape", "max_ape", "bias"}
    assert sort["interpolation"]["n"] == len(SIZES) // 2
    assert "2026-01-02" in out.read_text() and document["digests"]["k.csv"] in out.read_text()


@pytest.mark.long
def test_slices_side_by_side_make_a_surface(tmp_path):
    rows = ["gpu,algorithm,operation,rows_batch,elements_per_row,k,time_ms"]
    for slices in (1, 4, 16, 64, 256):
        for n in SIZES[:10]:
            rows.append(f"Card,old,topk,{slices},{n},{min(n // 2, 2000)},{1e3 * 2e-8 * n**0.9 * slices**0.3}")
    (kernel,) = calibrate(write(tmp_path / "k.csv", "\n".join(rows)), "--out", tmp_path / "gpu.yaml")["kernels"]
    assert kernel["second_variable"] == "slices" and kernel["interpolation"]["mape"] < 0.02
    assert float(gpu(tmp_path / "gpu.yaml").kernel_time("topk", 30_000)) == pytest.approx(2e-8 * 30_000**0.9, rel=0.02)


def test_damaged_rows_are_named_with_their_lines_and_the_others_count(tmp_path):
    bad = {
        row("topk", 1000, 1e-5, k=10).rsplit(",", 3)[0]: "17 cells",
        row("topk", "many", 1e-5, k=10): "whole numbers of elements",
        row("topk", 1000, -1.0, k=10): "median_s: expected a time above 0",
        row("topk", 0, 1e-5, k=10): "'0 elements, 1 slices'",
        row("topk", 1000, 1e-5, k=10, checked="False"): "a result that passed its check",
        row("gather", 1000, 1e-5): "'0 indices (k), 1 slices'",
        row("topkk", 1000, 1e-5, k=10): "did you mean 'topk'",
    }
    good = [RECORDED, *(row("sort", n, 1e-5 + 1e-10 * n) for n in SIZES[:4])]
    path = write(tmp_path / "k.csv", "\n".join([*good, *bad]) + "\n")
    result = attempt(path, "--out", tmp_path / "gpu.yaml")
    assert result.exit_code == 0
    lines = result.stderr.splitlines()
    for number, (line, expected) in enumerate(zip(lines, bad.values(), strict=True), len(good) + 1):
        assert line.startswith(f"{path}:{number}") and expected in line
    assert "7 damaged lines were left out" in result.stdout


def test_kernels_of_indices_need_the_column_of_indices(tmp_path):
    rows = ["device,kernel,elements,seconds"]
    rows += [f"A,{kernel},{n},{n}e-8" for kernel in ("sort", "gather", "scatter_add") for n in (1024, 2048)]
    result = attempt(path := write(tmp_path / "k.csv", "\n".join(rows)), "--out", tmp_path / "gpu.yaml")
    said = [f"{path}:1: expected a column k, the indices of {kernel}, got " for kernel in ("gather", "scatter_add")]
    pairs = zip(result.stderr.splitlines(), said, strict=True)
    assert result.exit_code == 0 and all(line.startswith(each) for line, each in pairs)


def test_a_config_is_of_one_device_and_software(tmp_path):
    rows = ["device,pytorch,kernel,elements,seconds"]
    rows += [f"{device},2.0,sort,{n},{n}e-8" for device in "AB" for n in (1024, 2048)]
    path = write(tmp_path / "k.csv", "\n".join(rows))
    assert "A, PyTorch 2.0; B, PyTorch 2.0" in refuse(path, "--out", tmp_path / "gpu.yaml")
    assert attempt(path, "--where", "device=B", "--out", tmp_path / "gpu.yaml").exit_code == 0


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("device,kernel,seconds", "a column elements or"), ("device,elements,seconds", "a column kernel or"),
        ("device,kernel,elements", "a column of times"),
    ],
)  # fmt: skip
def test_missing_columns_are_input_errors(tmp_path, header, expected):
    assert expected in refuse(write(tmp_path / "k.csv", header + "\n"), "--out", tmp_path / "gpu.yaml")


def test_outliers_do_not_move_the_curve(tmp_path):
    generator = np.random.default_rng(3)
    rows = ["device,kernel,elements,seconds"]
    for n in np.unique(np.geomspace(2**14, 2**28, 200).astype(int)):
        wild = 10 if generator.random() < 0.08 else 1
        rows.append(f"A,elementwise,{n},{wild * (8e-6 + 1.4e-11 * n)}")
    calibrate(write(tmp_path / "k.csv", "\n".join(rows)), "--out", tmp_path / "gpu.yaml")
    made = gpu(tmp_path / "gpu.yaml").kernels["elementwise"]
    assert made.slope == pytest.approx(1.4e-11, rel=0.02) and made.intercept == pytest.approx(8e-6, rel=0.02)


@pytest.mark.parametrize(
    ("elements", "seconds", "expected"),
    [
        (1, lambda place: 1e6, "at most 638.8 ms"),  # 300 (12 B 2^27 / 760 GB/s + 10 us)
        (1, lambda place: 1e3, "at most 638.8 ms"),
        (1, lambda place: 1e-6, "elementwise no faster than memory, 760 GB/s"),
        (4, lambda place: 1, "got 2793.9 GB/s"),  # 4 x 12 B 2^27 / (5 us + 12 B 2^27 / 700 GB/s)
        (1, lambda place: 1e6 if place > 7 else 1, "within 100 %"),
    ],
    ids=["microseconds as seconds", "milliseconds as seconds", "seconds as a million", "bytes as elements", "mixed"],
)
def test_times_that_cannot_be_are_refused(tmp_path, elements, seconds, expected):
    rows = ["device,kernel,elements,seconds"]
    for place, n in enumerate(2**i for i in range(14, 28)):
        rows.append(f"A,elementwise,{elements * n},{seconds(place) * (5e-6 + 12 * n / 700e9)}")
    table = write(tmp_path / "k.csv", "\n".join(rows))
    assert expected in refuse(table, "--memory-bandwidth", "760 GB/s", "--out", tmp_path / "gpu.yaml")
    assert not (tmp_path / "gpu.yaml").exists()


def test_a_poor_curve_and_one_above_the_bandwidth_of_a_known_device_are_warned_of(tmp_path):
    """On a V100 of 900 GB/s, 1.2 x 900 GB/s; and times of which every second is half as long again."""
    rows = ["device,kernel,elements,seconds"]
    for place, n in enumerate(2**i for i in range(14, 28)):
        rows += [f"Tesla V100,copy,{n},{8 * n / 1080e9}", f"Tesla V100,sort,{n},{(1 + place % 2 / 2) * 1e-9 * n}"]
    warned = calibrate(write(tmp_path / "k.csv", "\n".join(rows)), "--out", tmp_path / "gpu.yaml")["warnings"]
    assert len(warned) == 2
    assert "copy moves 1080 GB/s, more than memory, 900 GB/s" in warned[0]
    assert "the curve of sort misses timings left out by" in warned[1]


def test_parts_of_kernels_are_left_out_and_counted(tmp_path):
    rows = [RECORDED, *(row(kernel, n, 1e-5) for n in (1024, 2048, 4096) for kernel in ("sort", "nonzero", "pack"))]
    document = calibrate(write(tmp_path / "k.csv", "\n".join(rows)), "--out", tmp_path / "gpu.yaml")
    assert [item["kernel"] for item in document["kernels"]] == ["sort"]
    left_out = "3 timings of {} are left out: predictions do not use it"
    assert document["notes"] == [left_out.format(name) for name in ("nonzero", "pack")]
    assert document["problems"] == []


@pytest.mark.parametrize(
    "pairs",
    [
        [(1000, 10), (2000, 10)],
        [(1000, 10), (1000, 20), (2000, 10)],
        [(n, k) for n in (1000, 2000) for k in (10, 20)],
        [(n, k) for n in (1, 2, 4, 8) for k in (1, 2)],
    ],
)
def test_a_few_timings_are_a_curve_even_where_two_things_varied(tmp_path, pairs):
    rows = ["kernel,elements,k,seconds", *(f"topk,{n},{k},{1e-5 + 1e-9 * n}" for n, k in pairs)]
    document = calibrate(write(tmp_path / "k.csv", "\n".join(rows)), "--out", tmp_path / "gpu.yaml")
    assert document["kernels"][0]["second_variable"] == ""
    made = gpu(tmp_path / "gpu.yaml")
    assert made.device == ""
    for n, _ in pairs:
        assert float(made.kernel_time("topk", n)) == pytest.approx(1e-5 + 1e-9 * n, rel=1e-3)


def test_a_kernel_timed_at_one_size_has_no_curve(tmp_path):
    rows = ["kernel,elements,k,seconds", "topk,1000,10,1e-5", "topk,1000,20,2e-5"]
    result = attempt(write(tmp_path / "alone.csv", "\n".join(rows)), "--out", tmp_path / "gpu.yaml")
    expected = "calibrate kernels: expected two sizes or more of a kernel, got one of topk\n"
    assert (result.exit_code, result.stderr) == (2, expected)
    path = write(tmp_path / "k.csv", "\n".join([*rows, "sort,1000,,1e-5", "sort,2000,,2e-5"]))
    document = calibrate(path, "--out", tmp_path / "gpu.yaml")
    assert document["notes"] == ["2 timings of topk are left out: it has one size only"]
    assert [kernel["kernel"] for kernel in document["kernels"]] == ["sort"] == list(gpu(tmp_path / "gpu.yaml").kernels)


def test_a_second_variable_that_makes_no_difference_is_no_surface(tmp_path):
    rows = ["kernel,elements,k,seconds"]
    rows += [f"topk,{n},{n // d},{1e-5 + 1e-10 * n}" for n in SIZES[::3] for d in (4, 20, 100)]
    (kernel,) = calibrate(write(tmp_path / "k.csv", "\n".join(rows)), "--out", tmp_path / "gpu.yaml")["kernels"]
    assert (kernel["family"], kernel["second_variable"]) == ("affine", "")


def test_only_the_sizes_between_smallest_and_largest_are_taken(tmp_path):
    rows = ["kernel,elements,seconds,time_ms", *(f"sort,{n},{1e-5 + 1e-9 * n}," for n in SIZES)]
    path = write(tmp_path / "k.csv", "\n".join(rows))
    sizes, rate = ("--smallest", 5000, "--largest", 2**20), ("--memory-bandwidth", "760 GB/s")
    (kernel,) = calibrate(path, *sizes, *rate, "--out", tmp_path / "gpu.yaml")["kernels"]
    assert (kernel["range"], kernel["timings"]) == ([2**13, 2**20], 8)
    assert gpu(tmp_path / "gpu.yaml").memory_bandwidth == 760e9
    none = attempt(path, "--smallest", 2**40, "--out", tmp_path / "gpu.yaml")
    assert (none.exit_code, none.stderr) == (2, f"{path}: expected timings of kernels, got none\n")


def test_a_surface_of_a_few_timings_has_no_error_beyond_its_sizes(tmp_path):
    rows = ["kernel,elements,k,seconds"]
    rows += [f"topk,{n},{n // d},{1e-7 * n / d}" for n in (1000, 2000, 4000) for d in (2, 10, 100)]
    document = calibrate(write(tmp_path / "k.csv", "\n".join(rows)), "--density", 0.1, "--out", tmp_path / "gpu.yaml")
    (kernel,) = document["kernels"]
    assert (kernel["second_variable"], kernel["size_extrapolation"]) == ("k / elements", None)
    made = gpu(tmp_path / "gpu.yaml")
    assert float(made.kernel_time("topk", 2000)) == pytest.approx(1e-7 * 200, rel=0.02)
    assert made.kernels["topk"].source == "9 timings, surface 3 x 2 over size and k / elements"


def test_values_less_than_10_percent_apart_are_one_line_of_a_surface(tmp_path):
    """19 of 1,999 elements count as the hundredth that they nearly are."""
    rows = ["kernel,elements,k,seconds"]
    rows += [f"topk,{n},{n // d},{1e-7 * n / d}" for n in (1000, 1999, 4100) for d in (2, 10, 100)]
    found = calibrate_kernels(read_timings([write(tmp_path / "k.csv", "\n".join(rows))], TimingRows()), 0.1)
    assert [line.label for line in found["topk"].lines] == [f"topk, k / elements {value}" for value in (0.01, 0.1, 0.5)]
