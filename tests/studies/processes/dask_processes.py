"""Processes of a Dask cluster on the loopback interface."""

import subprocess
import sys


def start_dask(arguments, environment):
    """`dask scheduler` or `dask worker` with the rest of the arguments."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{arguments[0]}", *arguments[1:]]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env={**environment, "OMP_NUM_THREADS": "1"}, **pipes)


def address_of(scheduler):
    return next(line.split()[-1] for line in scheduler.stderr if "Scheduler at:" in line)


def end(processes):
    for process in processes:
        process.kill()
        process.wait()
        process.stderr.close()
