"""Recorded kernels: every result is checked, every check can fail, and the table survives an interruption."""

import csv
from importlib.util import find_spec

import pytest
from command_line import invoke, printed, refused

from simulator.errors import InputError
from simulator.hardware.kernels import INDEX_SIZED, KERNEL_TRAFFIC

pytestmark = [pytest.mark.torch, pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")]

SIZES = (2**10, 2**13)
COLUMNS = (
    "device,driver,cuda,pytorch,clock_policy,date,kernel,dtype,elements,k,contributions,order,median_s,p5_s,p95_s,"
    "repeats,checked"
)
QUICK = ("--quick", "--device", "cpu", "--threads", "1", "--budget", "0.001", "--rotate", "1 MiB")


@pytest.fixture(autouse=True)
def one_thread():
    """Two threads on a busy machine wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def source():
    from simulator.record.kernels import Inputs

    return Inputs("cpu", rotate=2**20, seed=3)


def names():
    """Without importing PyTorch; held against the recorder's own list below."""
    return (
        *("elementwise", "copy", "residual_add", "update", "cast", "unscale", "norm", "statistics", "quantise"),
        *("pack", "dequantise", "sort", "topk", "topk_by_sort", "threshold_scan", "nonzero", "masked_select"),
        *("gather", "scatter_add", "residual_clear"),
        *("random_indices", "unique"),
    )


def points(kernel, sizes=SIZES):
    from simulator.record.sweep import grid

    return grid(sizes, ("fp32", "fp16", "bf16"), [kernel])


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_kernels_have_the_names_that_the_simulator_prices():
    from simulator.record.kernels import KERNELS

    assert set(KERNELS) == set(names()) and set(KERNELS) <= set(KERNEL_TRAFFIC)
    host = {"host_merge", "host_exchange", "host_op", "shuffle"}
    chunks = {"dct", "chunk_topk", "pack_indices", "unpack_indices"}
    assert set(KERNEL_TRAFFIC) - set(KERNELS) == {*host, *chunks, "matmul", "hash", "radix_select", "radix_sort"}
    assert set(INDEX_SIZED) < set(KERNELS)


@pytest.mark.parametrize("kernel", names())
def test_every_check_passes(kernel, source):
    from simulator.record.kernels import KERNELS

    for point in points(kernel):
        assert KERNELS[kernel].checked(source, point), point


@pytest.mark.parametrize("kernel", names())
def test_every_check_fails_on_a_wrong_result(kernel, source):
    """One element of the result is changed by as little as the kernel's type can tell from rounding."""
    import torch

    from simulator.record.kernels import KERNELS

    entry = KERNELS[kernel]
    for point in points(kernel):
        arguments = entry.inputs(source, point, lambda role, n, dtype: source.fresh(n, dtype))
        before = tuple(item.clone() if isinstance(item, torch.Tensor) else item for item in arguments)
        result = entry.call(*arguments)
        parts = list(result) if isinstance(result, tuple) else [result]
        for number, part in enumerate(parts):
            wrong = part.clone()
            flat = wrong.view(-1)
            if not part.numel():
                wrong = part.new_zeros((1, *part.shape[1:]))
            elif kernel == "random_indices":
                flat[0] = point.elements
            elif part.dtype == torch.uint8:
                flat[-1] ^= 4
            elif part.dtype == torch.int8:
                flat[-1] = flat[-1] - 2 if flat[-1] > 0 else flat[-1] + 2
            elif part.dtype == torch.int64:
                flat[-1] = flat[-1] - 1 if flat[-1] > 0 else flat[-1] + 1
            else:
                flat[-1] += 1 + 0.5 * abs(float(flat[-1]))
            changed = tuple(wrong if i == number else item for i, item in enumerate(parts))
            if kernel == "scatter_add" and (point.contributions or 0) > 16 and point.dtype == "bf16":
                continue  # so many roundings of so few digits may add up to it
            assert not entry.right(before, changed if isinstance(result, tuple) else wrong), (point, number)


def test_a_selection_of_too_small_ones_is_wrong(source):
    """Consistent values and indices, but not the largest."""
    from simulator.record.kernels import KERNELS

    numbers, k = KERNELS["topk"].inputs(source, points("topk", (2**12,))[2])
    magnitude, order = numbers.abs().sort()
    assert KERNELS["topk"].right((numbers, k), (magnitude[-k:], order[-k:]))
    assert not KERNELS["topk"].right((numbers, k), (magnitude[-k - 1 : -1], order[-k - 1 : -1]))
    twice = order[-k:].clone()
    twice[0] = twice[1]
    assert not KERNELS["topk"].right((numbers, k), (numbers.abs()[twice], twice))


def test_no_two_calls_in_a_row_meet_the_same_memory_until_the_cache_has_seen_enough(source):
    import torch

    source.rotate = 2**23
    seen = [source.floats("a", 2**10, torch.float32).data_ptr() for _ in range(2**11 + 1)]
    assert len(set(seen[:-1])) == 2**11 and seen[-1] == seen[0]
    lists = [source.indices(2**12, 64, 2, "sorted") for _ in range(5)]
    assert len({item.data_ptr() for item in lists}) == 5
    for item in lists:
        halves = item.view(2, 64)
        assert bool((halves[:, 1:] > halves[:, :-1]).all()) and int(halves.max()) < 2**12
    shuffled = source.indices(2**12, 64, 1, "random")
    assert len(shuffled.unique()) == 64 and not bool((shuffled[1:] > shuffled[:-1]).all())


def test_the_grid_covers_what_it_says():
    from simulator.record.sweep import grid, sizes_up_to

    sizes = sizes_up_to(2**28)
    assert (sizes[0], sizes[-1], len(sizes)) == (2**10, 2**28, 19)
    every = grid(sizes, ("fp32", "fp16", "bf16"))
    assert len(set(every)) == len(every)
    shares = {point.k / point.elements for point in every if point.kernel == "topk" and point.elements == 2**20}
    assert (min(shares), max(shares)) == (pytest.approx(1e-4, rel=1e-2), 0.5)
    added = [point for point in every if point.kernel == "scatter_add"]
    assert {point.contributions for point in added} == {1, 2, 4, 8, 16, 32, 64}
    assert {point.order for point in added} == {"sorted", "random"}
    assert {point.dtype for point in every if point.kernel == "unique"} == {"int64"}
    with pytest.raises(InputError, match="--kernels: expected some of"):
        grid(sizes, ("fp32",), ["topkk"])


def test_the_table_is_tidy_and_resumed(tmp_path):
    path = tmp_path / "kernels.csv"
    result = invoke(
        "record", "kernels", "--out", path, *QUICK, "--max-elements", 2**10, "--kernels", "topk,scatter_add,unique"
    )
    assert result.exit_code == 0
    text = path.read_text()
    assert text.splitlines()[0] == COLUMNS
    rows = rows_of(path)
    assert [row["kernel"] for row in rows] == ["topk", *["scatter_add"] * 4, "unique"]
    assert {row["checked"] for row in rows} == {"true"}
    assert (rows[0]["elements"], rows[0]["k"], rows[0]["contributions"], rows[0]["order"]) == ("1024", "10", "", "")
    assert {(row["contributions"], row["order"]) for row in rows[1:5]} == {
        ("1", "sorted"), ("1", "random"), ("8", "sorted"), ("8", "random"),
    }  # fmt: skip
    for row in rows:
        assert 0 < float(row["p5_s"]) <= float(row["median_s"]) <= float(row["p95_s"]) and int(row["repeats"]) >= 3
        assert row["pytorch"] and row["device"]

    assert "continue it with --resume" in refused(
        "record", "kernels", "--out", path, *QUICK, "--max-elements", 2**10, "--kernels", "topk,unique"
    )
    assert path.read_text() == text

    path.write_text(text[:-20])  # an interruption within the last row
    more = ("--max-elements", 2**10, "--kernels", "norm,topk,scatter_add,unique", "--resume")
    told = printed("record", "kernels", "--out", path, *QUICK, *more)
    assert f"{path}: 2 rows, 5 kept, 0 points skipped, 0 wrong" in told
    after = rows_of(path)
    assert after[:5] == rows[:5] and [row["kernel"] for row in after[5:]] == ["norm", "unique"]

    path.write_text(path.read_text().replace(",10,,,", ",10,,,").replace(rows[0]["pytorch"], "1.0"))
    assert "use another file" in refused("record", "kernels", "--out", path, *QUICK, *more)


def test_wrong_output_and_what_cannot_run_are_said(tmp_path, monkeypatch):
    from simulator.record.kernels import KERNELS
    from simulator.records import replace

    def too_large(*arguments):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate")

    monkeypatch.setitem(KERNELS, "copy", replace(KERNELS["copy"], call=lambda a, out: out.copy_(a).neg_()))
    monkeypatch.setitem(KERNELS, "norm", replace(KERNELS["norm"], call=too_large))
    path = tmp_path / "kernels.csv"
    result = invoke(
        "record", "kernels", "--out", path, *QUICK, "--max-elements", 2**10, "--kernels", "copy,norm,elementwise"
    )
    assert result.exit_code == 1 and "1 points skipped, 1 wrong" in result.output
    assert "WRONG OUTPUT" in result.output
    assert [(row["kernel"], row["checked"]) for row in rows_of(path)] == [("copy", "false"), ("elementwise", "true")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dtypes", "fp64"), "--dtypes: expected some of fp32, fp16, bf16"),
        (("--rotate", "12"), "--rotate: expected a size with its unit"),
        (("--device", "cuda:99"), "--device: expected a GPU that PyTorch sees"),
        (("--device", "gpu"), "--device: expected auto, cpu, cuda or cuda:N, got 'gpu'"),
    ],
)
def test_wrong_options_are_input_errors(tmp_path, arguments, message):
    assert message in refused("record", "kernels", "--out", tmp_path / "k.csv", "--quick", *arguments)


def test_a_gpu_is_timed_by_its_events_behind_a_wait(source, monkeypatch):
    """With a GPU that is played by a counter: every event lets a millisecond pass."""
    import torch

    from simulator.record import sweep, timing
    from simulator.record.kernels import Point

    calls = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            calls.append("event")
            self.moment = len([call for call in calls if call == "event"])

        def elapsed_time(self, other):
            return float(other.moment - self.moment)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: calls.append("wait for it"))
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: calls.append("keep it busy"), raising=False)
    monkeypatch.setattr(sweep, "clock_of", lambda device: timing.clock_of("cuda:0"))
    spread = sweep.measure(Point("copy", "fp32", 1024), source, sweep.Effort(budget=0.0, least=10, most=20, warm_up=1))
    assert (spread.median, spread.p5, spread.p95, spread.repeats) == (1e-3, 1e-3, 1e-3, 10)
    batch = ["wait for it", "keep it busy", *["event"] * 16, "wait for it"]
    assert calls == ["wait for it", *batch, "wait for it", "keep it busy", *["event"] * 4, "wait for it"]
