"""Every command of README and docs runs, and prints what the page shows below it; texts keep to their length.

`python tests/contracts/test_documentation.py` writes what the commands print now into README and docs.
"""

import contextlib
import difflib
import os
import re
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))  # when run as a program

from documentation import COLUMNS, INSTALLS, ROOT, VISIBLE, agrees, blocks, commands, documents, is_slow, run

SLOW = (
    "README.md",
    "docs/background/selection.md",
    "docs/how-to/add-a-method.md",
    "docs/how-to/join-the-simulation.md",
    "docs/how-to/own-model.md",
    "docs/how-to/plan-backwards.md",
    "docs/how-to/read-the-interval.md",
    "docs/reference/api.md",
)


def takes_long(path):
    """Whether a page is left to the long tests."""
    return str(path.relative_to(ROOT)) in SLOW or any(
        block.note == "long" or (block.note != "not run" and any(map(is_slow, commands(block))))
        for block in blocks(path.read_text(encoding="utf-8"))
    )


PAGES = [
    pytest.param(path, id=str(path.relative_to(ROOT)), marks=pytest.mark.long if takes_long(path) else ())
    for path in documents()
]


def run_page(page, folder, long=False):
    """Run a page in `folder`; yields each command with what it printed."""
    namespace = {"__name__": "__page__"}
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.note == "not run" or (block.note == "long" and not long):
            continue
        if block.caption:
            (folder / block.caption).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.caption).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            with contextlib.redirect_stdout(None):
                exec(compile(block.text, str(page), "exec"), namespace)
        for command in commands(block):
            if command.line.startswith(INSTALLS) or (is_slow(command) and not long):
                continue
            yield command, run(command.line, folder)


def link_clone(folder):
    """Make `folder` look like a clone of the repository."""
    for name in VISIBLE:
        (folder / name).symlink_to(ROOT / name)
    os.chdir(folder)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", COLUMNS)
    monkeypatch.chdir(tmp_path)
    link_clone(tmp_path)
    return tmp_path


def check(page, folder, long):
    for command, printed in run_page(page, folder, long):
        assert command.printed is None or agrees(command.printed, printed), (
            f"$ {command.line}\nprints\n{printed}\nbut the page shows\n{command.printed}\n"
            "`python tests/contracts/test_documentation.py` writes what is printed now"
        )


@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_says(page, folder):
    check(page, folder, long=True)


def test_blocks_are_found():
    text = (
        "```console\n$ sparsim list \\\n  --json\n{\n...\n$ ls\n```\n"
        "<!-- not run: needs a GPU -->\n```\nsparsim run a\n```\n"
        "```{code-block} yaml\n:caption: a.yaml\n\nx: 1\n```\n"
        "```\npython -c 'import sparsim'\npython other.py\n```\n"
    )
    first, second, third, fourth = blocks(text)
    assert [item.line for item in commands(fourth)] == ["python -c 'import sparsim'"]
    assert [(item.line.split(), item.printed) for item in commands(first)] == [
        (["sparsim", "list", "--json"], "{\n...\n"),
        (["ls"], None),
    ]
    assert (second.note, commands(second)[0].line) == ("not run", "sparsim run a")
    assert (third.caption, third.text) == ("a.yaml", "x: 1\n")


def test_a_failing_command_and_a_different_output_are_noticed(folder):
    page = folder / "page.md"
    page.write_text("```console\n$ sparsim run ring_check --set cluster.nodes=0\n```\n")
    with pytest.raises(AssertionError, match="exit code 2"):
        check(page, folder, long=False)
    page.write_text("```console\n$ echo one\ntwo\n```\n")
    with pytest.raises(AssertionError, match=r"prints\s+one"):
        check(page, folder, long=False)


def fill_parts(shown, printed):
    """What is printed now, without the parts for which a line `...` stands: each part that is shown reaches from the
    line that is most like its first one to the line that is most like its last one."""
    lines, start, parts = printed.splitlines(keepends=True), 0, []
    for part in re.split(r"^\.\.\.\n", shown, flags=re.M):
        wanted = part.strip("\n").splitlines()
        filled = part
        if wanted and start < len(lines):
            first = closest(lines, wanted[0], start)
            last = closest(lines, wanted[-1], first)
            before = part[: len(part) - len(part.lstrip("\n"))]
            filled = before + "".join(lines[first : last + 1]) + ("\n" if part.endswith("\n\n") else "")
            start = last + 1
        parts.append(filled)
    return "...\n".join(parts)


def closest(lines, wanted, start):
    """The place, from `start` on, of the line that is most like another one."""
    alike = [difflib.SequenceMatcher(None, line.strip(), wanted.strip()).ratio() for line in lines[start:]]
    return start + alike.index(max(alike))


def test_parts_of_an_output_are_written_anew():
    shown = "title\ntime 1 s\n...\nsum 1 s  2 s\n...\n\nDoes it pay?\nNo: 2 times\n"
    printed = "title\ntime 3 s\nmemory 5 GB\nsum 3 s  4 s\nwarning\n\nDoes it pay?\nYes: 3 times\n"
    assert fill_parts(shown, printed) == "title\ntime 3 s\n...\nsum 3 s  4 s\n...\n\nDoes it pay?\nYes: 3 times\n"
    assert agrees(fill_parts(shown, printed), printed)


def page_with_new_output(page, folder):
    """The text of a page with what its commands print now; a line `...` goes on standing for what is left out."""
    text = page.read_text(encoding="utf-8")
    printed = {}
    for command, now in run_page(page, folder, long=True):
        if command.printed is not None and not agrees(command.printed, now):
            shown = fill_parts(command.printed, now) if "..." in command.printed else now
            if agrees(shown, now):
                printed[command.printed] = shown
            else:
                print(f"{page}: change this by hand: $ {command.line}\n{now}", file=sys.stderr)
    for old, new in printed.items():
        text = text.replace(old, new)
    return text


def test_readme_and_design_are_short():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.split()) <= 700
    assert len(readme.splitlines()) <= 120
    assert len((ROOT / "DESIGN.md").read_text(encoding="utf-8").split()) <= 1200


def test_every_test_and_every_file_that_is_named_exists():
    tests = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    for name in (
        "DESIGN.md",
        "CONTRIBUTING.md",
        "docs/developers/changes.md",
        "docs/developers/testing.md",
        "docs/developers/invariants.md",
    ):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert set(re.findall(r"`(test_\w+)`", text)) <= tests, name
        for path in re.findall(r"`([a-z_-]+/[\w/.-]+\.(?:py|md|yaml))`", text):
            if "NAME" not in path:
                assert (ROOT / path).exists() or (ROOT / "simulator" / path).exists(), (name, path)


def test_the_citation_has_the_version_of_the_package():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == version
    assert citation["authors"] == [{"name": "sparsim developers"}]
    assert set(citation) >= {"cff-version", "message", "title"}


@pytest.mark.long
def test_the_pages_load_nothing_from_elsewhere(documentation):
    for name in ("index", "reference/generated/scenario", "reference/cli", "background/index"):
        page = (documentation / f"{name}.html").read_text(encoding="utf-8")
        assert not [part for part in ('src="http', 'href="http', "@import") if part in page.partition("<body")[0]]


def main():
    """Write what the commands print now into README and docs."""
    os.environ["COLUMNS"] = COLUMNS
    for page in documents():
        with tempfile.TemporaryDirectory() as name:
            link_clone(Path(name))
            text = page_with_new_output(page, Path(name))
            os.chdir(ROOT)
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")
            print(f"{page}: written")


if __name__ == "__main__":
    main()
