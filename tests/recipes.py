"""The recipes of docs/developers/recipes.md: what each section says is done to a copy of the package.

A section lists its files in a table. A `diff` block changes a file, which it names after `---`: of every part after
`@@`, the lines that are there already (with a blank or `-` before them) are looked for, wherever they stand. A code
block with a caption is a new file of that name.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from places import ROOT

PAGE = ROOT / "docs" / "developers" / "recipes.md"
_BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S)
_OPTION = re.compile(r"^:[\w-]+:.*\n", re.M)
_PACKAGE = "simulator"


class Changed:
    """A copy of the package in which a recipe was carried out."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, *arguments):
        """What `python ARGUMENTS` prints with the copy, run in its folder."""
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=self.folder, env={**os.environ, "PYTHONPATH": str(self.folder)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def result(self, command, scenario, *overrides):
        """The document that a command of the copy prints for a scenario."""
        options = [part for item in overrides for part in ("--set", item)]
        return json.loads(self.run("-m", _PACKAGE, command, scenario, *options, "--json"))


def carry_out(recipe, folder, page=PAGE):
    """Do what a section of the page says to a copy of the package, and see that exactly the listed files differ.

    Raises AssertionError where the page does not fit the package, or lists other files.
    """
    text = section(page.read_text(encoding="utf-8"), recipe)
    listed = sorted(re.findall(r"^\| `([^`]+)` \|", text, re.M))
    copy_package(folder)
    for match in _BLOCK.finditer(text):
        info, body = match["info"], match["body"]
        if info == "diff":
            apply_diff(folder, body)
        elif caption := re.search(r"^:caption: (\S+)$", body, re.M):
            target = folder / caption[1]
            assert not target.exists(), f"{caption[1]} is there already"
            target.write_text(_content(info, body, page.parent), encoding="utf-8")
    assert listed == differing(folder), f"{recipe}: the page lists {listed}"
    return Changed(folder)


def section(text, name):
    """The text below the heading of a section, up to the next heading of its rank."""
    found = re.search(rf"^## {re.escape(name)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert found, f"{PAGE.name} has no section '{name}'"
    return found[1]


def copy_package(folder):
    """A copy of the package with the files that it reads."""
    shutil.copytree(ROOT / _PACKAGE, folder / _PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("configs", "scenarios"):
        (folder / name).symlink_to(ROOT / name)


def apply_diff(folder, diff):
    """Change the files that a diff names. Each of its parts must fit at one place."""
    for change in re.split(r"^--- ", diff, flags=re.M)[1:]:
        name, _, parts = change.partition("\n")
        path = folder / name
        text = path.read_text(encoding="utf-8")
        for part in re.split(r"^@@.*\n", parts, flags=re.M)[1:]:
            lines = part.splitlines(keepends=True)
            before = "".join(line[1:] or "\n" for line in lines if not line.startswith("+"))
            after = "".join(line[1:] or "\n" for line in lines if not line.startswith("-"))
            assert text.count(before) == 1, f"{name} has {text.count(before)} places like this:\n{before}"
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")


def differing(folder):
    """The files of the package that a copy has otherwise, in addition or no longer, by name."""
    mine, others = ({path.relative_to(root).as_posix() for path in _files(root)} for root in (folder, ROOT))
    same = {name for name in mine & others if (folder / name).read_bytes() == (ROOT / name).read_bytes()}
    return sorted((mine | others) - same)


def _files(root):
    return [path for path in (root / _PACKAGE).rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def _content(info, body, folder):
    """The text of a block with a caption, or of the file that it includes."""
    if included := re.fullmatch(r"\{literalinclude\} (\S+)", info):
        return Path(folder / included[1]).read_text(encoding="utf-8")
    return _OPTION.sub("", body).lstrip("\n")
