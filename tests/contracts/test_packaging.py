"""What is published: long description, licences, and the files that packages and the container are made of."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from places import ROOT

from simulator.engine.rounds.compiled_loop import LIBRARY, SWITCH, load_library

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NOTICES = (ROOT / "THIRD_PARTY_NOTICES.md").read_text(encoding="utf-8")
CONTAINER = (ROOT / "Containerfile").read_text(encoding="utf-8")
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
TRACES = ROOT / "packages" / "traces"
MOST_BYTES = 10_000_000
"""Of the wheel. Most gradient traces, which are close to their entropy, come in a wheel of their own."""
LICENCE = re.compile(r"\b(MIT|Apache-2\.0|BSD-3|CC BY 4\.0)\b")
REPOSITORY = re.compile(r"(?<![\w.-])[A-Za-z][\w-]+/[A-Za-z][\w.-]+")


def instructions(name):
    """The arguments of every instruction of the Containerfile with this name."""
    joined = CONTAINER.replace("\\\n", " ")
    return [line.removeprefix(name).strip() for line in joined.splitlines() if line.startswith(f"{name} ")]


def copied():
    """What the Containerfile copies from the folder that it is built in."""
    return [path for line in instructions("COPY") if "--from" not in line for path in line.split()[:-1]]


def long_description():
    """The README as a package index shows it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for change in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    return text


def test_the_long_description_links_to_no_file_of_the_repository():
    text = long_description()
    assert text.startswith("# sparsim\n")
    assert not [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("https://")]
    assert "glossary" in text, "the text of links is kept"


def test_every_file_of_the_packages_exists():
    for path in (
        *PROJECT["project"]["license-files"],
        *PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"],
    ):
        assert (ROOT / path).exists(), path


def test_the_container_copies_what_exists_and_is_not_ignored():
    assert copied()
    assert IGNORED[1] == "*", "everything is ignored but what is named"
    allowed = {line.removeprefix("!") for line in IGNORED if line.startswith("!")}
    assert set(copied()) == allowed
    assert all((ROOT / path).exists() for path in allowed)


def test_the_container_has_what_the_package_is_built_from():
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["only-include"], *PROJECT["project"]["license-files"], "pyproject.toml"}
    needed.add("hatch_build.py")
    assert needed <= set(copied())
    assert "README.md" in copied(), "the long description"


def test_the_container_runs_the_quickstart_without_the_rights_of_root():
    (command,), (arguments,) = instructions("ENTRYPOINT"), instructions("CMD")
    assert command.strip('[]" ') in PROJECT["project"]["scripts"]
    assert re.findall(r'"([^"]+)"', arguments) == ["run", "quickstart"]
    assert (ROOT / "scenarios" / "quickstart.yaml").exists()
    assert instructions("USER")[-1] not in ("root", "0")
    for image in {line.split()[0] for line in instructions("FROM")}:
        version = tuple(int(part) for part in re.findall(r"\d+", image)[:2])
        assert version >= tuple(int(part) for part in re.findall(r"\d+", PROJECT["project"]["requires-python"]))


@pytest.mark.skipif(not shutil.which("cc") or os.environ.get(SWITCH) == "0", reason="no C compiler, or switched off")
def test_where_there_is_a_compiler_the_event_loop_is_compiled_from_this_source():
    assert load_library() is not None, "python hatch_build.py"


@pytest.mark.long
@pytest.mark.parametrize("compiler", ["cc", "false"])
def test_a_wheel_is_made_from_what_the_container_copies(tmp_path, compiler):
    pytest.importorskip("hatchling")
    source = tmp_path / "source"
    for path in copied():
        if (ROOT / path).is_dir():
            shutil.copytree(ROOT / path, source / path, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            source.mkdir(exist_ok=True)
            shutil.copy(ROOT / path, source)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, source]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"CC": compiler})
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(wheel) as made:
        names = made.namelist()
        (about,) = (message_from_bytes(made.read(name)) for name in names if name.endswith(".dist-info/METADATA"))
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"simulator", "sparsim"}
    assert "simulator/scenarios/quickstart.yaml" in names
    assert "simulator/engine/rounds/event_loop.c" in names
    assert traces_in(names) == {path.name for path in (ROOT / "configs" / "traces").iterdir()} - apart()
    # Compiled for one platform and every Python; without a compiler it fits all.
    assert (f"simulator/engine/rounds/{LIBRARY.name}" in names) == (compiler != "false")
    assert wheel.name.endswith("-py3-none-any.whl") == (compiler == "false")
    assert about["License-Expression"] == "Apache-2.0"
    assert about.get_all("License-File") == PROJECT["project"]["license-files"]
    assert about.get_payload(decode=True).decode() == long_description()


def apart():
    """Traces that the wheel of packages/traces has, and sparsim's leaves out."""
    left_out = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["exclude"]
    return {path.removeprefix("/configs/traces/") for path in left_out}


def traces_in(names):
    """Of which traces a wheel has the gradients."""
    return {name.split("/")[-2] for name in names if name.endswith("/gradients.parquet")}


@pytest.mark.long
def test_the_wheel_of_traces_has_those_that_are_left_out(tmp_path):
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, TRACES]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as made:
        names = made.namelist()
    assert traces_in(names) == apart()
    assert {name.rpartition("/")[0].rpartition("/")[0] for name in names if name.endswith("/trace.yaml")} == {
        "simulator/configs/traces"
    }
    assert {"LICENSE", "THIRD_PARTY_NOTICES.md"} <= {Path(name).name for name in names}


@pytest.mark.parametrize("folder", ["configs", "scenarios"])
def test_every_licence_that_a_source_states_stands_in_the_notices(folder):
    missing = []
    for path in sorted(path for end in ("yaml", "csv") for path in (ROOT / folder).rglob(f"*.{end}")):
        text = re.sub(r"\n\s*#?\s*", " ", path.read_text(encoding="utf-8"))
        for found in LICENCE.finditer(text):
            before = text[max(0, found.start() - 170) : found.start()]
            sources = REPOSITORY.findall(before.replace("github.com/", "")) or ["UCI Optical Recognition"]
            if not any(source.removeprefix("github/") in NOTICES for source in sources):
                missing.append((str(path.relative_to(ROOT)), found[0], before[-80:]))
    assert not missing
