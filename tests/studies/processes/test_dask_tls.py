"""The how-to's Dask cluster with certificates, on the loopback interface: its commands and its configuration."""

import os
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec

import pytest
from command_line import run_python
from dask_processes import address_of, end, start_dask
from places import ROOT

pytestmark = [
    pytest.mark.skipif(find_spec("distributed") is None, reason="the extra `cluster` is not installed"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
    pytest.mark.long,
]
PAGE = (ROOT / "docs" / "how-to" / "sweep-on-a-cluster.md").read_text()
FOLDER = "/srv/sweep"


def command(start):
    """The words of the page's command that starts like this."""
    (found,) = re.findall(rf"^\$ ({start}.*)$", PAGE, re.MULTILINE)
    return shlex.split(found)


def swept(address, out, environment):
    words = command("sparsim sweep density.yaml .*--cluster")
    options = ["density_sweep" if word == "density.yaml" else word for word in words[1:]]
    options = [address if "://" in word else str(out) if word == "swept" else word for word in options]
    return run_python("-m", "simulator", *options, check=False, env=environment)


def test_only_who_has_the_certificate_reaches_the_scheduler(tmp_path):
    words = [word.replace(FOLDER, str(tmp_path)) for word in command("openssl")]
    subprocess.run([*words], check=True, capture_output=True)
    config = tmp_path / "config"
    config.mkdir()
    block = re.search(r":caption: ~/.config/dask/distributed.yaml\n\n(.*?)```", PAGE, re.S)[1]
    (config / "distributed.yaml").write_text(block.replace(FOLDER, str(tmp_path)))
    trusted = {**os.environ, "DASK_CONFIG": str(config), "OMP_NUM_THREADS": "1"}
    words = ["0" if word == "8786" else word.replace("10.0.0.1", "127.0.0.1") for word in command("dask scheduler")]
    processes = [start_dask(words[1:], trusted)]
    try:
        address = address_of(processes[0])
        assert address.startswith("tls://127.0.0.1:")
        words = [address if "://" in word else word for word in command("dask worker")]
        words = [{"10.0.0.2": "127.0.0.1", "16": "1"}.get(word, word) for word in words]
        processes.append(start_dask(words[1:], trusted))
        done = swept(address, tmp_path / "out", trusted)
        assert done.returncode == 0, done.stderr
        assert "78 points, 66 of them distinct: 66 evaluated" in done.stdout
        stranger = {key: value for key, value in trusted.items() if key != "DASK_CONFIG"}
        refused = swept(address, tmp_path / "other", stranger)
        assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)
        assert "expected a certificate in the configuration of Dask, got none" in " ".join(refused.stderr.split())
    finally:
        end(processes)
