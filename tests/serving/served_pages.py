"""A running `sparsim serve`, and requests to it, also malformed ones."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

from places import ROOT

TEXT = (ROOT / "scenarios" / "quickstart.yaml").read_text()


@contextmanager
def served(*arguments, cwd=None):
    """The port of a page that is served, and its process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "simulator", "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env=environment
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("http://127.0.0.1:"), line + process.stderr.read()
        yield int(line.split("/")[2].split(":")[1]), process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(30)
        process.stdout.close()
        process.stderr.close()


def request(port, method="POST", path="/answer", body=b"", **headers):
    """Status, headers and body of a reply. Headers of the page itself, unless others are given; None leaves one out."""
    own = {"host": f"127.0.0.1:{port}", "origin": f"http://127.0.0.1:{port}", "content-type": "application/json"}
    own |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in own.items():
            if value is not None:
                connection.putheader(name, value)
        if "content-length" not in own and "transfer-encoding" not in own:
            connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        with connection.getresponse() as reply:
            return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()
    finally:
        connection.close()


def ask(port, text=TEXT, changes=(), **more):
    """The parts of an answer."""
    status, _, body = request(port, body=json.dumps({"text": text, "changes": list(changes), **more}).encode())
    assert status == 200, body
    return [json.loads(line) for line in body.splitlines()]


def talk(port, data):
    """What comes back for raw bytes, until the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        made = b""
        while more := connection.recv(65536):
            made += more
        return made
