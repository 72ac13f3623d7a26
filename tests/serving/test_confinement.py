"""A scenario from the page reads nothing but what comes with the package, or what the command line named."""

import os
import sys

import pytest
from command_line import run_python
from long_examples import few_first
from places import ROOT

from simulator.errors import InputError
from simulator.files import as_yaml
from simulator.loading.documents import parse_document
from simulator.loading.finding import find_file, find_in_folder, known_names, only_shipped_files
from simulator.loading.replacing import replace_key
from simulator.scenario.reading import parse_scenario, scenario_of
from simulator.serving.answering import AnswerService
from simulator.serving.confinement import _is_inside, _may_open, lock_files, named_files, refuse_paths

TEXT = (ROOT / "scenarios" / "quickstart.yaml").read_text()
PATHS = [
    "/etc/passwd", "../../etc/passwd", "./secret", "workloads/../../secret", "~/secret", "C:\\secret", "\\\\host\\x",
    "configs/workloads/../../secret.yaml", "a\0b", "secret", "secret.yaml", "sub/secret", "/proc/self/environ", ".",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A current folder with files that a scenario must not read."""
    for name in ("secret.yaml", "sub/secret.yaml", "secret", "layers.csv", "configs/gpus/own.yaml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("name: hidden words\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(text, allowed=None):
    return list(AnswerService(allowed or {}).parts({"text": text}, lambda _: True))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("key", ["workload", "trace", "gpu", "network", "runtime"])
def test_paths_are_refused_in_every_place_that_takes_a_name(folder, path, key):
    quoted = "'" + path.replace("\0", "0") + "'"
    old = {
        "workload": "\nworkload:\n  trace: workloads/resnet50-v100", "trace": "workloads/resnet50-v100",
        "gpu": "gpus/rtx2080ti", "network": "networks/10gbe-tcp", "runtime": "runtimes/horovod-0.19",
    }[key]  # fmt: skip
    new = f"\nworkload: {quoted}\nrest:\n" if key == "workload" else quoted
    assert old in TEXT
    parts = answer(TEXT.replace(old, new, 1))
    assert parts[-1]["part"] == "problems" and "hidden words" not in str(parts)


@pytest.mark.parametrize(
    "text",
    [
        "workload: {batch_size: 1, layers: layers.csv}",
        "workload: {batch_size: 1, gradients: sub, layers: [{name: a, numel: 1, forward: 0 s, backward: 0 s}]}",
        "cluster: {network: {nccl: {tuner: secret.csv}}}",
        "workload: {config: sub, sequence: 8, batch_size: 1}",
        "versus: {workload.gradients: /etc}",
        "versus: {workload.gradients: sub}",
        "versus: {workload.layers: layers.csv}",
    ],
)
def test_keys_that_name_files_are_refused(folder, text):
    document = parse_scenario(text, "scenario")
    with pytest.raises(InputError, match="a file or folder: this page reads no files"):
        refuse_paths(document, {})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("versus", {"cluster.gpu": "./secret.yaml"}),
        ("workload", {"model": "config.json", "batch_size": 1}),
        ("workload", {"model": "sub/config", "batch_size": 1}),
        ("workload", {"model": "model.py:make", "batch_size": 1}),
        ("cluster.other_gpus", [{"nodes": [0], "gpu": "../secret.yaml", "factor": 1}]),
    ],
)
def test_names_inside_of_other_parts_find_no_file_either(folder, key, value):
    text = as_yaml(replace_key(parse_scenario(TEXT, "scenario").data, key, value, None))
    (problem,) = answer(text)[-1]["problems"]
    assert "expected a kind of model" in problem["text"] or "files of this machine are not read here" in problem["text"]
    assert "hidden words" not in problem["text"]


def test_texts_for_people_may_look_like_paths():
    refuse_paths(parse_document("{name: ../x, question: /etc?, measured: {source: ./a}, density: .5, x: -1}"), {})


def test_every_shipped_part_may_be_written_out():
    for folder in ("gpus", "networks", "runtimes"):
        for path in sorted((ROOT / "configs" / folder).glob("*.yaml")):
            refuse_paths(parse_document(path.read_text(), path.name), {})


def test_every_shipped_scenario_passes():
    for name in known_names("scenarios"):
        document = parse_scenario((ROOT / "scenarios" / f"{name}.yaml").read_text(), "scenario")
        refuse_paths(document, {})
        with only_shipped_files({}):
            scenario_of(document.data, document, None)


@pytest.mark.parametrize("name", few_first(known_names("workloads"), 4))
def test_every_shipped_model_is_answered(name):
    text = TEXT.replace("workloads/resnet50-v100", name).replace("gpus/rtx2080ti", "gpus/h100")
    text = text.replace("compute_time: 252.9 ms", "compute_time: 20 s") + "ignore_memory: true\n"
    assert [part["part"] for part in answer(text)] == ["scenario", "answer"]


def test_names_find_shipped_files_only(folder):
    assert find_file("secret", None) is not None and find_file("gpus/own", None) is not None
    with only_shipped_files({"mine": folder / "secret"}):
        assert find_file("secret", None) is None and find_file("secret", folder) is None
        assert find_file("gpus/own", None) is None
        assert "gpus/own" not in known_names("gpus")
        assert find_in_folder("layers.csv", folder) is None and find_file("mine", None) == folder / "secret"
        assert find_file("gpus/v100", None) is not None
    assert find_in_folder("layers.csv", folder) == folder / "layers.csv"


def test_files_that_the_command_line_named_may_be_read(folder):
    (folder / "gpu.yaml").write_text((ROOT / "configs" / "gpus" / "v100.yaml").read_text())
    text = TEXT.replace("gpus/rtx2080ti", "./gpu.yaml")
    allowed = named_files(parse_scenario(text, "scenario"), folder)
    assert allowed == {"./gpu.yaml": (folder / "gpu.yaml").resolve()}
    assert [part["part"] for part in answer(text, allowed)][:2] == ["scenario", "answer"]
    assert answer(TEXT.replace("gpus/rtx2080ti", "./secret.yaml"), allowed)[-1]["part"] == "problems"


def test_what_is_inside_of_the_places_may_be_read_and_nothing_written(tmp_path):
    places, inside = (f"{tmp_path}/",), str(tmp_path / "a" / "b")
    assert all(_may_open((inside, mode, os.O_RDONLY), places) for mode in ("r", "rb", None))
    assert not any(_may_open((inside, mode, 0), places) for mode in ("w", "a", "x", "r+", "rb+"))
    assert not any(_may_open((inside, None, flag), places) for flag in (os.O_WRONLY, os.O_RDWR, os.O_CREAT))
    assert not any(
        _may_open((path, "r", 0), places) for path in ("/etc/passwd", f"{tmp_path}x", f"{inside}/../../../x")
    )
    assert _may_open((3, "w", os.O_RDWR), ()) and _is_inside(tmp_path, places)  # what is open already
    assert not _is_inside(None, places) and _is_inside(None, (f"{os.getcwd()}/",))


def test_a_lock_refuses_other_files_and_folders_programs_and_connections(folder, monkeypatch):
    """The current folder holds nothing that may be read, and of named files all that lies beside them may.

    What comes with the package may, where it is in no folder that Python has on its path.
    """
    hooks = []
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "addaudithook", hooks.append)
    elsewhere = [place for place in sys.path if os.path.realpath(place) != os.path.realpath(ROOT)]
    monkeypatch.setattr(sys, "path", ["", str(folder), *elsewhere])
    lock_files({"mine": folder / "sub" / "secret.yaml"})
    (watch,) = hooks
    for place in (ROOT / "configs" / "gpus", ROOT / "scenarios", ROOT / "simulator", folder / "sub"):
        watch("os.listdir", (str(place),))
        watch("open", (str(place / "a"), "r", 0))
    watch("import", ("simulator",))
    for event in ("os.listdir", "os.scandir"):
        with pytest.raises(PermissionError, match="not read by this page"):
            watch(event, (str(folder),))
    refused = [("open", (name, "r", 0)) for name in ("secret", "subway", str(folder / "secret"))]
    forbidden = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect")
    refused += [("os.listdir", (None,)), *((event, ()) for event in forbidden)]
    for event, arguments in refused:
        with pytest.raises(PermissionError):
            watch(event, arguments)
    assert sys.dont_write_bytecode


@pytest.mark.long
def test_a_locked_process_opens_nothing_else(tmp_path):
    (tmp_path / "secret").write_text("x")
    for name in ("here", "named"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret").write_text("x")
    named = tmp_path / "named" / "secret"
    code = f"""
import os, pathlib, subprocess
from simulator.serving.answering import AnswerService
from simulator.serving.confinement import lock_files
text = open({str(ROOT / "scenarios" / "quickstart.yaml")!r}).read()
lock_files({{"named": pathlib.Path({str(named)!r})}})
assert open({str(named)!r}).read() == "x"
assert [part["part"] for part in AnswerService({{}}).parts({{"text": text}}, lambda _: True)] == ["scenario", "answer"]
refused = 0
for attempt in (
    lambda: open({str(tmp_path / "secret")!r}), lambda: open("secret"), lambda: os.listdir("."),
    lambda: open("/etc/passwd", "rb"), lambda: os.listdir("/"),
    lambda: os.open("/etc/passwd", os.O_RDONLY), lambda: open(__import__("simulator").__file__, "a"),
    lambda: subprocess.run(["true"]), lambda: os.system("true"),
    lambda: __import__("socket").create_connection(("127.0.0.1", 9)),
):
    try:
        attempt()
    except PermissionError:
        refused += 1
print(refused)
"""
    made = run_python("-c", code, check=False, cwd=tmp_path / "here")
    assert made.stdout.strip() == "10", made.stderr
