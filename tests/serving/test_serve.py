"""How `sparsim serve` begins and ends."""

import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from places import ROOT
from served_pages import TEXT, ask, served

from simulator.errors import InputError
from simulator.serving.serve import serve

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


def test_it_listens_on_the_loopback_address_alone(port):
    own = {item[4][0] for item in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in own or {"127.0.0.2"}:
        with pytest.raises(OSError), socket.create_connection((address, port), timeout=2):
            pass


@pytest.mark.long
def test_parts_of_an_answer_come_the_quickest_first(port):
    # A machine that is busy for a moment leaves the map out, and remembers its answers for the next question.
    parts = next(made for made in (ask(port) for _ in range(10)) if "<td" in made[-1]["html"])
    assert [part["part"] for part in parts][:3] == ["scenario", "answer", "answer"]
    assert [part["final"] for part in parts if part["part"] == "answer"] == [False, True]
    assert "Does Top-k 0.1 % pay for ResNet-50" in parts[2]["html"]
    quick, full = parts[1]["html"], parts[2]["html"]
    assert quick.count("first-order 90 % interval") == quick.count("90 % interval") == full.count("90 % interval") > 4
    assert "first-order" not in full
    orders = [part.get("intervals") for part in parts]
    assert orders == [None, "first_order", "full", *["first_order"] * (len(parts) - 3)]
    assert "first order" in parts[-1]["html"] and parts[-1]["part"] == "map"
    assert parts[-1]["html"].count("<td") == 35 and "waits" not in parts[-1]["html"]


@pytest.mark.long
def test_ctrl_c_ends_it_with_its_processes():
    with served() as (port, process):
        ask(port)
        children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
        assert len(children.stdout.split()) >= 2
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0 and process.stderr.read() == "ended\n"
        time.sleep(0.5)
        for child in children.stdout.split():
            alive = subprocess.run(["ps", "-o", "stat=", "-p", child], capture_output=True, text=True, check=False)
            assert alive.stdout.strip()[:1] in ("", "Z")


def test_a_port_that_is_taken_is_named(port):
    with pytest.raises(InputError, match=f"--port: expected a free port, got {port}, which another program uses: give"):
        serve("quickstart", port, print)


def test_an_unknown_scenario_is_named():
    with pytest.raises(InputError, match="did you mean 'quickstart'"):
        serve("quickstrat", 0, print)


def test_without_the_extra_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette", None)
    with pytest.raises(InputError, match=r"sparsim serve: expected the extra .* pip install 'sparsim\[serve\]'"):
        serve("quickstart", 0, print)


@pytest.mark.long
def test_a_scenario_of_the_command_line_may_name_its_own_files(tmp_path):
    (tmp_path / "gpu.yaml").write_text((ROOT / "configs" / "gpus" / "rtx2080ti.yaml").read_text())
    (tmp_path / "mine.yaml").write_text(TEXT.replace("gpus/rtx2080ti", "gpu.yaml"))
    with served("mine.yaml", cwd=tmp_path) as (port, _):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as reply:
            assert "gpu: gpu.yaml" in reply.read().decode()
        mine = (tmp_path / "mine.yaml").read_text()
        assert ask(port, mine)[1]["part"] == "answer"
        assert ask(port, mine.replace("gpu.yaml", "mine.yaml"))[-1]["part"] == "problems"
