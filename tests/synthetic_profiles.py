"""Profiles of training steps, made by following every launch and every kernel."""

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


class Machine:
    """A host thread that launches in 2 us, and a GPU that runs one kernel after the other. Times in microseconds.

    `room`: kernels that may wait; a launch that finds no room takes until there is some.
    """

    def __init__(self, room=None):
        self.events, self.host, self.gpu, self.room, self.starts = [], 1_000_000.0, 1_000_000.0, room, []

    def span(self, cat, name, start, end, thread=1, **args):
        made = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": end - start}
        self.events.append(made | {"args": args})

    def launch(self, lasts, name="void kernel<float>(int)", stream=7, **args):
        """Hand a kernel to the GPU; the host waits here only where there is no room."""
        blocked = 0.0
        if self.room and len(self.starts) >= self.room:
            blocked = max(0.0, self.starts[-self.room] - self.host)
        names = {"correlation": len(self.starts) + 1}
        self.span("cuda_runtime", "cudaLaunchKernel", self.host, self.host + blocked + 2, **names)
        self.host += blocked
        self.starts.append(max(self.gpu, self.host))
        self.gpu = self.starts[-1] + lasts
        self.span("kernel", name, self.starts[-1], self.gpu, stream, **names, stream=stream, **args)

    def run(self, work, launching, kernels=10):
        """`work` us on the GPU in kernels that are launched evenly over `launching` us."""
        for _ in range(kernels):
            self.launch(work / kernels)
            self.host += launching / kernels

    def fetch(self, loading, copy):
        """A batch from the loader, and its copy from pageable memory, before which the host waits for the GPU."""
        begin, self.host = self.host, self.host + loading
        if loading:
            self.span("user_annotation", LOADER, begin, self.host)
        if copy:
            begin, self.gpu = self.host, max(self.host, self.gpu) + copy
            self.host = self.gpu
            self.starts.append(self.gpu - copy)
            names = {"correlation": len(self.starts)}
            self.span("cuda_runtime", "cudaMemcpyAsync", begin, self.host, **names)
            self.span("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", self.starts[-1], self.gpu, 7, **names)

    def wait(self):
        """The host waits for the GPU."""
        begin, self.host = self.host, max(self.host, self.gpu) + 5
        self.span("cuda_runtime", "cudaStreamSynchronize", begin, self.host, correlation=0)


NODE = "autograd::engine::evaluate_function: "


def forward(machine, number, work, launching):
    """The forward operation of one layer."""
    begin = machine.host
    machine.host += 1
    machine.run(work, launching - 1)
    machine.span("cpu_op", "aten::linear", begin, machine.host, **{"Sequence number": number, "Fwd thread id": 0})


def forward_and_backward(machine, layers, first, again=False):
    """The passes over layers of (elements, GPU forward, GPU backward, host forward, host backward).

    `again`: each layer is computed again inside of a node of its backward pass, with numbers of its own.
    """
    numbered = list(enumerate(layers, first))
    for number, (_, work, _, launching, _) in numbered:
        forward(machine, number, work, launching)
    for number, (numel, work, back, launching, back_launching) in reversed(numbered):
        outer, names = machine.host, {"Sequence number": number, "Fwd thread id": 1}
        if again:
            names = names | {"Sequence number": first + 50 + len(layers) + first - number}
            forward(machine, names["Sequence number"], work, launching)
        begin = machine.host
        machine.run(back, back_launching - 1)
        machine.span("cpu_op", f"{NODE}AddmmBackward0", begin, machine.host, **names)
        dims = {"Input Dims": [[numel]], "Input type": ["float"]}
        machine.span("cpu_op", "torch::autograd::AccumulateGrad", machine.host, machine.host + 1, **dims)
        machine.host += 1
        if again:
            names = {"Sequence number": number, "Fwd thread id": 1}
            machine.span("cpu_op", f"{NODE}CheckpointFunctionBackward", outer, machine.host, **names)


def profiled_steps(
    layers, *, steps=5, waits=True, loading=0, copy=0, update=(0, 0), slow=(), room=None, nccl=0, passes=1, again=False
):
    """A trace of steps 3, 4, ..., and when each one ended on the host and on the GPU.

    A step fetches a batch in `loading` us (100 ms more in the steps of `slow`, counted from 0), copies it for `copy`
    us, runs the layers in so many `passes`, an all-reduce of `nccl` us and an optimiser of `update` (us on the GPU and
    on the host). With `waits`, the host waits for the GPU at the end. `again`: activations are computed again.
    """
    machine, ended = Machine(room), []
    for step in range(steps):
        begin = machine.host
        machine.fetch(loading + 100_000 * (step in slow), copy)
        for number in range(passes):
            forward_and_backward(machine, layers, 1000 * step + 100 * number, again)
        if nccl:
            sizes = {"In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "Half", "Group size": 4}
            machine.launch(nccl, ALL_REDUCE, 20, **sizes)
        if any(update):
            updating = machine.host
            machine.run(*update)
            machine.span("user_annotation", "Optimizer.step#SGD.step", updating, machine.host)
        if waits:
            machine.wait()
        machine.span("user_annotation", f"ProfilerStep#{step + 3}", begin, machine.host)
        ended.append((machine.host, machine.gpu))
    return {"deviceProperties": [{"id": 0, "name": "Test GPU"}], "traceEvents": machine.events}, ended
