"""Small logs and tables in the formats that the readers know, made from laws that the tests know."""

import gzip
import json


def nccl_log(
    rows,
    *,
    hosts=("node1",),
    each=2,
    program="all_reduce",
    version="2.20.5+cuda12.4",
    environment=(),
    old=False,
    root=None,
):
    """A log of nccl-tests: `rows` are (bytes, seconds out of place, seconds in place or None).

    Old logs have no column of the root, unless one is given.
    """
    ranks = [(i * each + j, host, j) for i, host in enumerate(hosts) for j in range(each)]
    p = len(ranks)
    factor = {"all_reduce": 2 * (p - 1) / p, "all_gather": (p - 1) / p, "reduce_scatter": (p - 1) / p}.get(program, 1)
    lines = [] if old else [f"# Collective test starting: {program}_perf"]
    lines += [
        f"# nThread 1 nGpus 1 minBytes {rows[0][0]} maxBytes {rows[-1][0]} step: 2(factor) warmup iters: 5 iters: 20",
        "#",
        "# Using devices",
        *(f"#  Rank {r:2d} Group  0 Pid {4000 + r} on {h} device {j:2d} [0x3d] Test GPU" for r, h, j in ranks),
        f"{hosts[0]}:4000:4000 [0] NCCL INFO Bootstrap : Using [0]eth0:10.0.0.1<0>",
        f"NCCL version {version}",
        *(f"{hosts[0]}:4000:4001 [0] NCCL INFO {name} set by environment to {value}." for name, value in environment),
        f"{hosts[0]}:4000:4001 [0] NCCL INFO Using network Socket",
        "#                                       out-of-place                       in-place",
    ]
    last = "error" if old else "#wrong"
    root = root if old or root is not None else -1
    names = "size count type redop" + ("" if root is None else " root")
    lines += [f"#  {names} time algbw busbw {last} time algbw busbw {last}", "#  (B) (elements) (us) (GB/s) (GB/s)"]
    operation = "sum" if program in ("all_reduce", "reduce_scatter", "reduce") else "none"
    for nbytes, *times in rows:
        cells = [str(nbytes), str(nbytes // 4), "float", operation, *([] if root is None else [str(root)])]
        for time in times:
            if time is None:
                cells += ["N/A"] * 4
                continue
            speed = nbytes / time / 1e9
            cells += [f"{time * 1e6:.6g}", f"{speed:.2f}", f"{speed * factor:.2f}", "1e-06" if old else "0"]
        lines.append("  ".join(cells))
    return "\n".join([*lines, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 1.0", "#", ""])


def nccl_document(rows, ranks=8):
    """JSON as option -J writes it, of an all-reduce."""

    def half(nbytes, seconds):
        speed = nbytes / seconds / 1e9
        return {"time": seconds * 1e6, "alg_bw": speed, "bus_bw": speed * 2 * (ranks - 1) / ranks, "nwrong": 0.0}

    devices = [{"rank": rank, "hostname": "a", "device_info": "Test GPU"} for rank in range(ranks)]
    results = [
        {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1"}
        | {"out_of_place": half(size, first), "in_place": half(size, second) if second else None}
        for size, first, second in rows
    ]
    return {
        "version": 2, "args": ["/opt/all_reduce_perf", "-b", "8"], "env": ["HOME=/root", "NCCL_ALGO=Ring"],
        "nccl_version": 22802, "config": {"ngpus": 8, "devices": devices}, "results": results,
    }  # fmt: skip


def ring_seconds(nbytes, workers, bandwidth, latency, passes=2):
    """passes (p - 1) (alpha + S / (p B)): an all-reduce with two passes, a gather or scatter with one."""
    return passes * (workers - 1) * (latency + nbytes / (workers * bandwidth))


def ring_log(workers, bandwidth, latency, sizes, program="all_reduce", **more):
    """A log of a ring on one node that follows the law to the digits printed."""
    passes = 2 if program == "all_reduce" else 1
    times = [ring_seconds(size, workers, bandwidth, latency, passes) for size in sizes]
    return nccl_log([(s, t, t) for s, t in zip(sizes, times, strict=True)], each=workers, program=program, **more)


def write(path, text):
    """Write a text file, packed where its name says so."""
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def kineto_trace(*, sizes=(1000, 64_000, 128, 128, 36_864), steps=2, shapes=True, ddp=False, nccl=(), older=False):
    """A profiler trace of `steps` steps: one autograd node per tensor in backward order, 100 us of kernel each.

    Gradient i is ready 100 (i + 1) us after the first kernel; its forward kernel takes 40 us. `nccl`: (bytes of a
    float message, microseconds) of all-reduces. `ddp`: sizes stand in DDP's copies instead of shapes. `older`: the
    spelling of PyTorch 1.9.
    """
    events, correlation, sequence, now = [], 0, 0, 1_000_000.0
    cats = ("Operator", "Runtime", "Kernel") if older else ("cpu_op", "cuda_runtime", "kernel")

    def op(name, start, length, thread, cat=cats[0], **args):
        made = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": length, "args": args}
        events.append(made)

    def kernel(launch, thread, start, length, name="void kernel<float>(int)", **args):
        nonlocal correlation
        correlation += 1
        op("cudaLaunchKernel", launch, 2, thread, cats[1], correlation=correlation)
        op(name, start, length, 7, cats[2], correlation=correlation, **args)

    for step in range(steps):
        begin = now
        numbers = list(range(sequence, sequence + len(sizes)))
        sequence += len(sizes)
        for number in reversed(numbers):  # the forward pass goes the other way
            op("aten::linear", now, 20, 1, **{"Sequence number": numbers[0] + numbers[-1] - number, "Fwd thread id": 0})
            kernel(now + 5, 1, now + 50, 40)
            now += 30
        ready = now + 500
        for i, size in enumerate(sizes):
            names = {"Sequence number": numbers[-1] - i, "Fwd thread id": 1}
            if not older:
                op("autograd::engine::evaluate_function: AddmmBackward0", now, 22, 2, **names)
            op("AddmmBackward" if older else "AddmmBackward0", now + 1, 20, 2, **names)
            kernel(now + 5, 2, ready + 100 * i, 100)
            if not older:
                op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", now + 23, 6, 2)
            dims = {"Input Dims": [[size]], "Input type": ["float"]} if shapes else {}
            op("torch::autograd::AccumulateGrad", now + 24, 4, 2, **dims)
            now += 30
        for nbytes, length in nccl:
            op(
                "nccl:all_reduce",
                now,
                10,
                2,
                "user_annotation",
                **{"Input Dims": [[nbytes // 4]], "Input type": ["float"]},
            )
            kernel(now + 5, 2, ready + 10_000, length, "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)")
            now += 20
        for size in sizes if ddp else ():
            op("torch.distributed.ddp.reducer::copy_bucket_to_grad", now, 8, 2)
            correlation += 1
            op("cudaMemcpyAsync", now + 2, 2, 2, cats[1], correlation=correlation)
            copied = {"correlation": correlation, "bytes": 4 * size}
            op("Memcpy DtoD (Device -> Device)", ready + 20_000, 1, 7, "gpu_memcpy", **copied)
            now += 10
        if not older:
            op(f"ProfilerStep#{step}", begin - 1, now - begin, 1, "user_annotation")
        now += 100_000
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "Test GPU"}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},
        "traceEvents": events,
        "traceName": "trace.json",
    }


def write_json(path, data, indent=1):
    """Write JSON, one event per line or so, packed where the name says so."""
    return write(path, json.dumps(data, indent=indent))
