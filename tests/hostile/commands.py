"""Every command of the package on damaged files: what `readers.py` is to functions that read."""

import csv
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner
from places import ROOT
from readers import BESIDE, RUN, SWEEP, Reader, _journal, _scenarios, _trace, readers
from small_inputs import SCENARIO

from simulator.cli import main

MEASURED = SCENARIO + "measured: {iteration_time: 3 ms, source: x, used_in_fit: true}\n"
NAMED = re.compile(r"(?i)(?<![\w.'\"/`-])[-+]?(nan|inf)(?![\w.'\"/`])")
KERNELS = "device,kernel,dtype,elements,k,median_s\n" + "".join(
    f"card,{kernel},fp32,{2**n},{max(1, 2**n // 100)},{1e-5 + 1e-10 * 2**n}\n"
    for kernel in ("topk", "elementwise")
    for n in range(12, 26, 2)
)
COLLECTIVES = "primitive,workers,gpus_per_node,bytes,seconds\n" + "".join(
    f"all_reduce,4,1,{2**n},{(1 + 0.02 * (-1) ** n) * 6 * (1e-5 + 2**n / 4e9)}\n" for n in (12, 17, 21, 26)
)
ANSWERS = (
    "--model workloads/resnet50-v100 --gpu gpus/v100 --machines 4 --gpus-per-machine 1 --network 10gbe-tcp "
    "--framework pytorch-ddp --method topk --goal pays"
)
PLUGIN = '''
"""A method from outside."""
from simulator.sparsifiers.topk import TopK


class Strided(TopK, kind="strided"):
    """Every k-th element."""

    stride: int = 3
'''


class Said(NamedTuple):
    """What a command said about its input; `problems` as readers return them."""

    problems: tuple[str, ...]


def ran(arguments: Sequence[str], data: bytes) -> Said:
    """Run a command. Raises ValueError for a traceback, another exit code, and a number that is none."""
    result = CliRunner().invoke(main, [*arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code not in (0, 1, 2):
        raise ValueError(f"exit code {result.exit_code}: {result.output[-500:]}")
    if (
        not result.exit_code
        and not NAMED.search(data.decode(errors="replace"))
        and (odd := NAMED.search(result.stdout))
    ):
        raise ValueError(f"printed {result.stdout[max(0, odd.start() - 100) : odd.end() + 50]!r}")
    return Said((result.stderr,))


def command(name: str, *arguments: str, seeds: Sequence[bytes], beside: Mapping[str, bytes] | None = None) -> Reader:
    """A command as a reader of the file `name`; `{}` in its arguments is the folder of the file."""

    def read(path: Path) -> Said:
        folder, before = path.parent, Path.cwd()
        (folder / "out").mkdir(exist_ok=True)
        os.chdir(folder)
        try:
            return ran([item.replace("{}", str(folder)) for item in arguments], path.read_bytes())
        finally:
            os.chdir(before)

    return Reader(name, seeds, read, beside or {})


def _new(path: Path) -> Said:
    """`new` with the answers that the file has, a word each; and never anywhere else than in its folder."""
    words = path.read_text(errors="replace")[:4000].split()  # click repeats all that it does not know
    before = Path.cwd()
    with tempfile.TemporaryDirectory(dir=path.parent) as inner:
        os.chdir(inner)
        try:
            return ran(["new", "mine.yaml", *(word for word in words if not word.endswith(".py"))], path.read_bytes())
        finally:
            os.chdir(before)


def _plugin(path: Path) -> Said:
    """A command that does not need the plug-in, in a process that has it installed."""
    metadata = path.parent / "outside-1.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[simulator.plugins]\nstrided = outside\n")
    done = subprocess.run(
        [sys.executable, "-m", "simulator", "run", str(path.parent / "run.yaml"), "--json"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(path.parent), os.environ.get("PYTHONPATH", str(ROOT))])},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    if done.returncode or "Traceback" in done.stderr:
        raise ValueError(f"exit code {done.returncode}: {done.stderr[-1500:]}")
    return Said((done.stderr,))


@cache
def _stored() -> dict[str, dict[str, bytes]]:
    """The files of a run and of a sweep, as the commands store them."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "run.yaml").write_text(SCENARIO)
        (place / "sweep.yaml").write_bytes(SWEEP)
        CliRunner().invoke(main, ["run", str(place / "run.yaml"), "--out", str(place / "run")])
        CliRunner().invoke(main, ["sweep", str(place / "sweep.yaml"), "--out", str(place / "sweep"), "--workers", "1"])
        kept = {name: [path for path in (place / name).iterdir() if path.is_file()] for name in ("run", "sweep")}
        return {name: {path.name: path.read_bytes() for path in paths} for name, paths in kept.items()}


def _trainings() -> bytes:
    """A few rows of a shipped table of trainings."""
    rows = list(csv.reader((ROOT / "configs" / "trainings" / "mlp-digits.csv").read_text().splitlines()))
    out = io.StringIO()
    csv.writer(out).writerows([rows[0], *(row for row in rows[1:] if row[4:6] == ["2", "32"])][:30])
    return out.getvalue().encode()


def _imports() -> dict[str, Reader]:
    """`trace import` of every tool's file, and `calibrate network` of those that time collectives."""
    found = readers()
    made = {
        f"import_{tool}": command(
            found[name].name, "trace", "import", tool, found[name].name, "--out", "{}/out", seeds=found[name].seeds
        )
        for tool, name in (
            ("npz", "npz"), ("kineto", "kineto"), ("chakra", "chakra"),
            ("nccl-tests", "nccl_log"), ("osu", "osu"), ("nccl-tuning", "nccl_tuning"),
        )
    }  # fmt: skip
    for name in ("nccl_log", "osu", "kineto"):
        file = found[name].name
        arguments = ("calibrate", "network", file, "--out", "{}/out/net.yaml", "--no-figure", "--workers", "4")
        made[f"calibrate_{name}"] = command(file, *arguments, seeds=found[name].seeds)
    return made


@cache
def commands() -> dict[str, Reader]:
    """All commands that read files: `sparsim_` and a name."""
    seeds, run, sweep = _scenarios(), _stored()["run"], _stored()["sweep"]
    beside = {name: data for name, data in BESIDE.items() if name != "run.yaml"} | {"other.yaml": SCENARIO.encode()}

    def on_scenario(*arguments: str) -> Reader:
        return command("run.yaml", *arguments, seeds=seeds, beside=beside)

    def on_stored(name: str, files: Mapping[str, bytes], *arguments: str) -> Reader:
        others = {key: data for key, data in files.items() if key != name} | {"small.yaml": SCENARIO.encode()}
        return command(name, *arguments, seeds=[files[name]], beside=others)

    result, table, text = "result.json", "results.csv", SCENARIO.encode()
    made = {
        "run": on_scenario("run", "run.yaml", "--full", "--out", "{}/out"),
        "run_json": on_scenario("run", "run.yaml", "--json"),
        "check": on_scenario("check", "run.yaml"),
        "explain": on_scenario("explain", "run.yaml", "--full"),
        "advise": command("run.yaml", "advise", "run.yaml", seeds=[text]),
        "compare": on_scenario("compare", "run.yaml", "other.yaml", "-o", "{}/out/c.html"),
        "timeline": on_scenario("timeline", "run.yaml", "-o", "{}/out/t.json", "--workers", "all"),
        "report": on_scenario("report", "run.yaml", "-o", "{}/out/r.html"),
        "validate": command("run.yaml", "validate", "run.yaml", seeds=[MEASURED.encode()]),
        "fit": command(
            "run.yaml", "calibrate", "runtime", "run.yaml", "--term", "negotiation", seeds=[MEASURED.encode()]
        ),
        "sweep": command("sweep.yaml", "sweep", "sweep.yaml", "--out", "{}/out", "--workers", "1", seeds=[SWEEP]),
        "resume": command(
            "points.jsonl", "sweep", "sweep.yaml", "--out", "{}", "--workers", "1",
            seeds=[_journal()], beside={"sweep.yaml": SWEEP},
        ),
        "workload": command("work.yaml", "list", "workload", "work.yaml", "--gpu", "gpus/a100", beside=beside,
            seeds=[BESIDE["work.yaml"], b"model: gpt2\nlayers: 2\nhidden: 16\nheads: 2\nbatch_size: 2\n"]),
        "kernels": command("gpu.yaml", "list", "kernels", "gpu.yaml", seeds=[BESIDE["gpu.yaml"]]),
        "quality": command(
            "trained.csv", "quality", "trained.csv", "--target", "loss 1", "--scenario", "run.yaml", "--workers", "2",
            "--batch", "32", seeds=[_trainings()], beside={"run.yaml": RUN.encode()} | beside,
        ),
        "calibrate_kernels": command("k.csv", "calibrate", "kernels", "k.csv", "--out", "{}/out/g.yaml", "--no-figure",
            seeds=[KERNELS.encode()]),
        "calibrate_table": command("c.csv", "calibrate", "network", "c.csv", "--out", "{}/out/n.yaml", "--no-figure",
            seeds=[COLLECTIVES.encode()]),
        "report_run": on_stored(result, run, "report", "{}", "-o", "{}/out/r.html"),
        "figure_run": on_stored(result, run, "report", "{}", "--figure", "iteration_breakdown", "-o", "{}/out/f.svg"),
        "compare_run": on_stored(result, run, "compare", "{}", "small.yaml"),
        "report_sweep": on_stored(table, sweep, "report", "{}", "-o", "{}/out/r.html"),
        "figure_sweep": on_stored(table, sweep, "report", "{}", "--figure", "lines", "-o", "{}/out/f.svg"),
        "compare_sweep": on_stored(table, sweep, "compare", "{}", "{}"),
        "trace_check": command("trace.yaml", "trace", "check", "{}", seeds=[_trace()["trace.yaml"]], beside=_trace()),
        "trace_info": command("layers.csv", "trace", "info", "{}", seeds=[_trace()["layers.csv"]], beside=_trace()),
        "trace_fit": command("union.csv", "trace", "fit", "{}", seeds=[_trace()["union.csv"]], beside=_trace()),
        "synthesize": Reader("spec.yaml", readers()["synthetic"].seeds, command(
            "spec.yaml", "trace", "synthesize", "spec.yaml", "--out", "{}/out/t", seeds=()).read),
        "new": Reader("answers.txt", [ANSWERS.encode()], _new),
        "plugin": Reader("outside.py", [PLUGIN.encode()], _plugin, {"run.yaml": text}),
        **_imports(),
    }  # fmt: skip
    return {f"sparsim_{name}": item for name, item in made.items()}
