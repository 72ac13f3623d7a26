"""Steps of a study that are watched, and interruptions of every command that shows them."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest
from click.testing import CliRunner
from in_json import in_json
from places import ROOT
from pyarrow.parquet import ParquetWriter

from simulator.calibration.kernels import calibrate_kernels
from simulator.calibration.timings import TimingRows, read_timings
from simulator.cli import main
from simulator.engine.build_up import build_up
from simulator.prediction.run import run
from simulator.progress import Watch
from simulator.scenario.reading import load
from simulator.studies.explain.explanation import explain
from simulator.studies.traces.synthesis import synthesize
from simulator.studies.traces.trace_study import folder_of
from simulator.studies.validate.validation import validate
from simulator.traces.format.trace import Trace

VALIDATION = ROOT / "scenarios" / "validation" / "resnet18-4xv100-ib"


class Interrupting(Watch):
    """Presses Ctrl-C once so many steps are done."""

    def __init__(self, at):
        super().__init__()
        self.at = at

    def step(self, count=1):
        before = self.done
        super().step(count)
        if before < self.at <= self.done:
            raise KeyboardInterrupt


def test_a_watch_counts_and_shows():
    seen = []
    watch = Watch(seen.append, began=time.monotonic() - 1000)
    watch.expect(2)
    watch.step()
    watch.step(3)  # more than was expected
    assert [(progress.evaluated, progress.total) for progress in seen] == [(0, 2), (1, 2), (4, 4)]
    assert [progress.seconds for progress in seen] == pytest.approx([1000] * 3, abs=100)
    with watch.part("one"):
        pass
    assert not watch.interrupted
    with watch.part("two"):
        raise KeyboardInterrupt
    assert watch.interrupted == "two"
    with pytest.raises(ValueError, match="kept"), watch.part("three"):
        raise ValueError("kept")


def test_a_validation_keeps_the_rows_so_far():
    watch = Interrupting(1)
    document = validate([VALIDATION], watch=watch)
    assert watch.interrupted == "the predictions"
    assert len({row["scenario"] for row in document.rows}) == 1
    with pytest.raises(KeyboardInterrupt):
        validate([ROOT / "scenarios" / "ring_check.yaml"], watch=Interrupting(1))  # states no measurement: no rows


def test_a_validation_is_the_same_from_any_number_of_processes():
    one, two = (validate([VALIDATION], processes=count) for count in (1, 2))
    assert json.dumps(one.to_dict()) == json.dumps(two.to_dict())


@pytest.mark.parametrize("at", [1, 3, 8])
def test_an_explanation_keeps_its_terms(at):
    watch = Interrupting(at)
    document = in_json(explain)(load("ring_check"), watch)
    assert watch.interrupted
    assert document["terms"]
    assert len(document["sensitivity"]["inputs"]) <= at
    json.dumps(document, allow_nan=False)


def test_a_build_up_keeps_the_iterations_that_are_done():
    watch = Interrupting(3)
    rows = build_up(folder_of("traces/resnet-digits"), [{"kind": "topk", "density": 0.01}], (1, 2, 4), watch)
    first = Trace.open(folder_of("traces/resnet-digits")).spec.iterations[:3]
    assert [(row["workers"], row["iteration"]) for row in rows] == [(count, at) for count in (1, 2, 4) for at in first]
    assert (watch.interrupted, watch.done) == ("the replays", 3)


def test_a_prediction_keeps_nothing_of_a_replay(monkeypatch):
    monkeypatch.setattr("simulator.engine.replay.Watch", lambda observe: Interrupting(2))
    with pytest.raises(KeyboardInterrupt):
        run(load("replay_topk", ("cluster.nodes=2", "workload.trace=traces/transformer-generated")))


def test_a_generated_trace_ends_with_what_is_written(tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text("layers: [{numel: 100, scale: 1.0}]\nworkers: 2\niterations: 5\n")
    watch = Interrupting(2)
    synthesize(str(spec), None, 1.0, tmp_path / "made", watch)
    assert (watch.interrupted, watch.done, watch.total) == ("the iterations", 2, 5)
    assert Trace.open(tmp_path / "made").spec.iterations == (0, 1)


def test_a_trace_that_is_interrupted_while_it_is_written_has_what_is_in_its_file(tmp_path, monkeypatch):
    spec = tmp_path / "spec.yaml"
    spec.write_text("layers: [{numel: 100, scale: 1.0}]\nworkers: 2\niterations: 5\n")
    write, written = ParquetWriter.write_table, []

    def interrupted(self, table, **how):
        write(self, table, **how)
        written.append(len(table))
        if len(written) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(ParquetWriter, "write_table", interrupted)
    monkeypatch.setattr("simulator.traces.format.writer.GROUP_ROWS", 1)
    watch = Watch()
    synthesize(str(spec), None, 1.0, tmp_path / "made", watch)
    assert (watch.interrupted, written) == ("the iterations", [100, 100])
    assert Trace.open(tmp_path / "made").spec.iterations == (0, 1)


def test_calibrated_kernels_are_those_that_were_fitted(tmp_path):
    rows = ["kernel,elements,seconds,device,software"]
    for kernel in ("elementwise", "topk"):
        rows += [f"{kernel},{2**n},{1e-5 + 1e-10 * 2**n},card,torch" for n in range(10, 24)]
    path = tmp_path / "timings.csv"
    path.write_text("\n".join(rows) + "\n")
    watch = Interrupting(1)
    made = calibrate_kernels(read_timings([path], TimingRows()), watch=watch)
    assert (list(made), watch.interrupted) == (["elementwise"], "the fits of the kernels")
    assert calibrate_kernels(read_timings([path], TimingRows())).keys() == {"elementwise", "topk"}


def test_any_command_ends_with_130_and_a_line(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("simulator.prediction.run.plan_of", interrupt)
    result = CliRunner().invoke(main, ["check", "quickstart"])
    assert result.exit_code == 130
    assert result.stderr == "interrupted\n"


def read_to_the_end(screen):
    """Read a pseudo terminal until the other end is closed, and close this one."""
    with suppress(OSError):
        while os.read(screen, 4096):
            pass
    os.close(screen)


@pytest.mark.long
def test_progress_on_a_real_terminal_and_a_real_ctrl_c():
    """A pseudo terminal: the bar with the time left is on stderr, and SIGINT leaves the rows so far."""
    screen, terminal = pty.openpty()
    command = [sys.executable, "-m", "simulator", "validate", str(ROOT / "scenarios" / "validation")]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"}
    # What a shell without job control starts in the background ignores SIGINT, and so would what is started from here.
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, text=True, env=environment, cwd=ROOT)
    signal.signal(signal.SIGINT, inherited)
    os.close(terminal)
    shown, began = "", time.monotonic()
    while not re.search(r"\b([2-9]\d|\d{3})/", shown) and time.monotonic() - began < 120:
        shown += os.read(screen, 4096).decode(errors="replace")
    process.send_signal(signal.SIGINT)
    # The bar goes on until the rows under way are done: unread, it would fill the terminal, and the process would wait.
    threading.Thread(target=read_to_the_end, args=(screen,), daemon=True).start()
    printed, _ = process.communicate(timeout=300)
    assert " left" in shown
    assert process.returncode == 130
    assert "Every measured time" in printed
    assert "Traceback" not in shown + printed
