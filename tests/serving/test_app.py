"""`sparsim serve` from outside: what it answers, and what it refuses."""

import json
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import pytest
from places import ROOT
from served_pages import TEXT, ask, request, talk

from simulator.serving.app import MAX_BODY
from simulator.serving.calculators import LIMIT_S

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
from simulator.serving.app import MOST_CONNECTIONS, SILENCE_S

EVIL = "</script><img src=x onerror=alert(1)>\"' <b>{{ 7*7 }}</b>"


def test_the_page_and_its_files_are_sealed(port):
    for path, kind in (("/", "text/html"), ("/assets/serve.js", "text/javascript"), ("/assets/serve.css", "text/css")):
        status, headers, body = request(port, "GET", path, content_type=None, origin=None)
        assert (status, headers["content-type"].split(";")[0]) == (200, kind)
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
        assert not {"set-cookie", "access-control-allow-origin", "server"} & set(headers)
        assert b"style=" not in body or path != "/"
    assert b"https://" not in request(port, "GET", "/", origin=None)[2]


@pytest.mark.long
def test_the_final_answer_is_that_of_run(port):
    command = [sys.executable, "-m", "simulator", "run", "quickstart", "--json"]
    document = json.loads(subprocess.run(command, capture_output=True, check=True, text=True, cwd=ROOT).stdout)
    assert document["comparison"]["answer"] in next(part for part in ask(port) if part.get("final"))["html"]


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost", "[::1]:{port}", "0.0.0.0:{port}",
     "127.0.0.1:{port}.evil.example", "127.0.0.1.evil.example:{port}", "user@127.0.0.1:{port}", "", " ", "127.1:{port}",
     "127.0.0.1:{port}@evil.example", "LOCALHOST:{port}", "2130706433:{port}", None],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_hosts_are_refused(port, host, method):
    host = None if host is None else host.format(port=port)
    status, _, body = request(port, method, "/" if method == "GET" else "/answer", host=host)
    assert status in (400, 403)
    assert b"<html" not in body


def test_two_hosts_are_refused(port):
    made = talk(port, f"GET / HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nhost: evil.example\r\n\r\n".encode())
    assert made.split()[1] in (b"400", b"403")


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1", "http://127.0.0.1:1", "null", "file://", "",
     "http://127.0.0.1:{port}.evil.example", "http://127.0.0.1:{port}/", "chrome-extension://a", None],
)  # fmt: skip
def test_other_origins_are_refused(port, origin):
    origin = None if origin is None else origin.format(port=port)
    assert request(port, body=json.dumps({"text": TEXT}).encode(), origin=origin)[0] == 403


def test_requests_of_other_sites_are_refused_and_links_are_not(port):
    cross = {"origin": None, "sec_fetch_site": "cross-site"}
    assert request(port, "GET", "/", **cross, sec_fetch_mode="no-cors", sec_fetch_dest="script")[0] == 403
    assert request(port, "GET", "/", **cross, sec_fetch_mode="navigate", sec_fetch_dest="iframe")[0] == 403
    assert request(port, "GET", "/", **cross, sec_fetch_mode="navigate", sec_fetch_dest="document")[0] == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None, ""])
def test_bodies_that_a_form_could_send_are_refused(port, kind):
    assert request(port, body=b'{"text": ""}', content_type=kind)[0] == 415


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "GET", "HEAD"])
def test_other_methods_are_refused(port, method):
    assert request(port, method, "/answer")[0] == 405
    if method not in ("GET", "HEAD"):
        assert request(port, method, "/")[0] == 405


@pytest.mark.parametrize(
    "path",
    ["/assets/page.html.j2", "/assets/../serve.py", "/assets/..%2fserve.py", "/assets/%2e%2e/serve.py", "/../etc/x",
     "/scenarios/..%2f..%2fetc%2fpasswd", "/scenarios/no", "/scenarios/", "/assets/", "/favicon.ico", "//etc/passwd",
     "/scenarios/%00", "/answer/x", "/assets/serve.js/x"],
)  # fmt: skip
def test_nothing_else_is_found(port, path):
    assert request(port, "GET", path, origin=None)[0] in (400, 404, 405)


def test_shipped_scenarios_are_found(port):
    status, _, body = request(port, "GET", "/scenarios/ring_check", origin=None)
    assert (status, body.decode()) == (200, (ROOT / "scenarios" / "ring_check.yaml").read_text())


def head_of(port, *headers, method="POST"):
    """The head of a request that comes from the page itself."""
    own = (f"{method} /answer HTTP/1.1", f"host: 127.0.0.1:{port}", f"origin: http://127.0.0.1:{port}")
    return "\r\n".join((*own, *headers, "", "")).encode()


def test_a_large_body_is_refused_before_it_is_sent(port):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(head_of(port, "content-type: application/json", "content-length: 100000000000"))
        assert connection.recv(100).split()[1] == b"413"


def test_a_large_body_without_a_length_is_refused_as_it_comes(port):
    chunk = b"ffff\r\n" + b"a" * 0xFFFF + b"\r\n"
    head = head_of(port, "content-type: application/json", "transfer-encoding: chunked")
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(head + chunk * (MAX_BODY // 0xFFFF + 1))
        assert connection.recv(100).split()[1] == b"413"


@pytest.mark.parametrize("length", ["-1", "1e9", "0x10", "99999999999999999999999999", "1, 2"])
def test_odd_lengths_are_refused(port, length):
    # Without a body: bytes that nobody read when the server closes may take its reply away on the way.
    assert request(port, content_length=length)[0] in (400, 413)


def test_the_largest_body_is_answered(port):
    text = TEXT + "# " + "x" * (MAX_BODY - 2 * len(TEXT))
    assert ask(port, text)[0]["part"] == "scenario"


@pytest.mark.parametrize(
    "body",
    [b"", b"no JSON", b"[]", b"1", b"null", b'{"text": 1}', b'{"text": "", "changes": 3}', b"[" * 200_000, b'"\\ud800"',
     b'{"text": "\\ud800"}', b"\xff\xfe", b'{"text": NaN}', b'{"text": "", "changes": [["seed", "\\u0000"]]}'],
)  # fmt: skip
def test_other_bodies_are_problems(port, body):
    status, _, made = request(port, body=body)
    assert status == 200
    assert json.loads(made.splitlines()[-1])["part"] in ("problems", "failed") and b"Traceback" not in made


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]" for i in range(9)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a scenario: a mapping"),
        ("- 1", "a scenario: a mapping"),
        (BOMB, "at most 200000 values"),
        ("a: " + "[" * 5000, "at most 40 levels"),
        ("a: " + "{a: " * 5000, "at most 40 levels"),
        ("a: !!python/object/apply:os.system [true]", "plain YAML without tags"),
        (TEXT.replace("density: 0.001", "density: .nan"), "a finite number"),
        (TEXT.replace("density: 0.001", "density: .inf"), "a finite number"),
        (TEXT.replace("density: 0.001", "density: " + "9" * 5000), "expected"),
        (TEXT.replace("nodes: 8", "nodes: 1000000000"), "at most 131072"),
        (TEXT.replace("nodes: 8", "nodes: 131072"), "at most 131072 workers"),
        (TEXT.replace("nodes: 8", "nodes: -1"), "at least 1"),
        (TEXT.replace("gpus/rtx2080ti", "../../etc/passwd"), "files of this machine are not read here"),
        (TEXT.replace("kind: topk", "kind: '<img src=x onerror=alert(1)>'"), "a kind of sparsifier"),
    ],
)
def test_bad_scenarios_are_problems_with_the_words_of_the_terminal(port, text, said):
    began = time.monotonic()
    last = ask(port, text)[-1]
    assert last["part"] == "problems" and said in last["problems"][0]["text"]
    assert time.monotonic() - began < 10


def test_a_problem_names_its_key_and_line(port):
    (problem,) = ask(port, changes=[["sparsifier.density", "3"]])[-1]["problems"]
    line = TEXT.splitlines().index("sparsifier: {kind: topk, density: 0.001}") + 1
    assert (problem["key"], problem["line"]) == ("sparsifier.density", line)
    assert problem["text"] == f"scenario:{line}:26: sparsifier.density: expected at most 1, got 3"


def test_a_name_that_is_a_script_is_text(port):
    text = TEXT.replace("name: ResNet-50", f"question: {json.dumps(EVIL)}\nname: {json.dumps(EVIL)} #")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("question: Does"))
    parts = ask(port, text, pinned=text)
    for part in parts:
        assert "<img" not in part.get("html", ""), part["part"]
        assert "49" not in part.get("html", "")[:200]
    assert "&lt;img src=x onerror=alert(1)&gt;" in parts[1]["html"]


@pytest.mark.long
def test_a_cluster_of_100_000_workers_is_answered_or_given_up(port):
    began = time.monotonic()
    parts = ask(port, TEXT.replace("nodes: 8", "nodes: 32000"))
    assert time.monotonic() - began < 2 * LIMIT_S
    assert parts[-1]["part"] in ("map", "failed")
    assert ask(port)[1]["part"] == "answer"


def test_a_web_socket_is_not_opened(port):
    asked = ("connection: Upgrade", "upgrade: websocket", "sec-websocket-version: 13")
    head = head_of(port, *asked, "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==", method="GET")
    assert talk(port, head).split()[1] != b"101"


def test_noise_does_not_end_it(port):
    for noise in (b"\0" * 1000, b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00", b"A" * 100_000, b"\r\n\r\n"):
        talk(port, noise)
    assert request(port, "GET", "/", origin=None)[0] == 200


@contextmanager
def silent_connections(port, count):
    with ExitStack() as held:
        connect = socket.create_connection
        yield [held.enter_context(connect(("127.0.0.1", port), timeout=60)) for _ in range(count)]


def test_silent_connections_do_not_keep_others_from_the_page(port):
    with silent_connections(port, 200):
        assert request(port, "GET", "/", origin=None)[0] == 200 and ask(port)[-1]["part"] == "map"


@pytest.mark.long
def test_of_too_many_connections_silent_ones_are_closed(port):
    with silent_connections(port, MOST_CONNECTIONS + 20) as held:
        assert request(port, "GET", "/", origin=None)[0] == 200
        for connection in held:
            connection.setblocking(False)
        deadline = time.monotonic() + 60
        while sum(_is_closed(connection) for connection in held) < 20:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.long
def test_headers_that_arrive_byte_by_byte_have_a_limit(port):
    """The limit is that of the connection: each byte that arrives within it does not begin another."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as slow,
        socket.create_connection(("127.0.0.1", port), timeout=60) as silent,
    ):
        began = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() < began + 3 * SILENCE_S:
                slow.sendall(b"x")
                time.sleep(SILENCE_S / 20)
        assert silent.recv(1) == b""
        assert time.monotonic() - began > 0.9 * SILENCE_S


def _is_closed(connection):
    """Whether the other side has closed a connection that does not block."""
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_a_second_question_of_a_page_is_answered_and_the_first_ends(port):
    body = json.dumps({"text": TEXT}).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as first:
        more = ("sparsim-page: one", "content-type: application/json", f"content-length: {len(body)}")
        first.sendall(head_of(port, *more) + body)
        first.recv(1000)
        assert request(port, body=body, sparsim_page="one")[0] == 200
        first.settimeout(20)
        made = b""
        while not made.endswith(b"0\r\n\r\n") and (more := first.recv(65536)):
            made += more
