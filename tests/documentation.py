"""The commands, files and Python code in fenced blocks of the documentation, and how they are run.

In a `console` block a line after `$ ` is a command, and the lines that follow are its output (`...` stands for any
text). In a block without a language every line that begins with `sparsim` or `python -c` is a command. A `code-block`
with a caption is a file of that name; a `python` block is run. `<!-- not run: reason -->` before a block skips it, and
`<!-- long: reason -->` leaves it to the long tests.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner
from places import ROOT

from simulator.cli import main

COLUMNS = "88"
SLOW = ("sparsim advise", "sparsim sweep", "sparsim trace build-up", "sparsim validate")
PYTHON = ("python -c ", "python3 -c ")
INSTALLS = ("python3 -m venv", "git clone")
"""Commands that install something: .ci/run runs those of the README."""
VISIBLE = ("configs", "docs", "examples", "scenarios", "tests")
"""What the commands find in their folder, as in a clone."""
_FENCE = re.compile(
    r"(?P<note>(?:<!--[^\n]*-->\s*\n)?)^(?P<fence>`{3,}) *(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence) *$", re.M | re.S
)
_NOTE = re.compile(r"<!-- (not run|long): (.+?) -->")
_SHELL = re.compile(r"[|;&<>$`*]|^for ")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """One fenced block of a page: language, text, position, its note (`not run`, `long` or empty) and caption."""

    language: str
    text: str
    start: int
    note: str
    caption: str = ""


@dataclass(frozen=True)
class Command:
    """One command of a block, and the output shown on the page; None where no output is shown."""

    line: str
    printed: str | None


def documents() -> list[Path]:
    """The README and every page that is not generated."""
    pages = (
        path for path in (ROOT / "docs").rglob("*.md") if "generated" not in path.parts and "_build" not in path.parts
    )
    return [ROOT / "README.md", *sorted(pages)]


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for found in _FENCE.finditer(text):
        noted = _NOTE.search(found["note"])
        info, body, caption = found["info"].strip(), found["body"], ""
        language = info.partition(" ")[0]
        if info.startswith("{code-block}"):
            language = info.split()[-1]
            options = re.match(r"(?::\w+: *[^\n]*\n)+", body)
            if options:
                named = re.search(r":caption: *(\S+)", options[0])
                caption, body = named[1] if named else "", body[options.end() :].lstrip("\n")
        yield Block(language, body, found.start("body"), noted[1] if noted else "", caption)


def commands(block: Block) -> list[Command]:
    """The commands of a block; of one without prompts, lines that begin with `sparsim`."""
    joined = block.text.replace("\\\n", " ")
    if block.caption:
        return []
    if block.language == "console":
        parts = re.split(r"^\$ ", joined, flags=re.M)[1:]
        split = (part.partition("\n") for part in parts)
        return [Command(line, printed if printed.strip() else None) for line, _, printed in split]
    if block.language in ("", "sh", "bash", "shell"):
        return [
            Command(line, None) for line in joined.splitlines() if line.startswith(("sparsim ", *PYTHON, *INSTALLS))
        ]
    return []


def is_slow(command: Command) -> bool:
    """Whether a command is left to the long tests."""
    return any(slow in command.line for slow in SLOW)


def run(line: str, folder: Path) -> str:
    """Run a command in `folder` and return what it prints. Raises AssertionError where it fails."""
    first, pipe, rest = line.partition(" | ")
    if first.startswith("sparsim ") and not _SHELL.search(re.sub(r"'[^']*'", "", first)):
        # In this process: starting another one takes longer than most commands.
        result = CliRunner().invoke(main, shlex.split(first, comments=True)[1:], catch_exceptions=False)
        code, printed, errors = result.exit_code, result.stdout, result.stderr
        if pipe and not code:
            code, printed, errors = _shell(rest, folder, printed)
    else:
        code, printed, errors = _shell(line, folder)
    if code:
        raise AssertionError(f"$ {line}\nexit code {code}\n{printed}\n{errors}")
    return "".join(f"{text.rstrip()}\n" for text in printed.splitlines())


def _shell(line: str, folder: Path, stdin: str = "") -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a shell command."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": COLUMNS, "PYTHONWARNINGS": "default"}
    done = subprocess.run(
        ["bash", "-ec", line], cwd=folder, env=environment, input=stdin, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def agrees(shown: str, printed: str) -> bool:
    """Whether a command prints what the page shows; white space is ignored, and `...` stands for any text."""
    return doctest.OutputChecker().check_output(shown, printed, _FLAGS)
