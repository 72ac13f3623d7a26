"""Sphinx extension that writes the generated pages of the reference before the build reads its sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pages import pages
from sphinx.application import Sphinx

_COMMANDS = ("sparsim ", "torchrun ", "cat ", "python ")


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference" / "generated"
    made = {f"{name}.md": make() for name, make in pages().items()}
    for path in folder.rglob("*.md"):
        if str(path.relative_to(folder)) not in made:
            path.unlink()
    for name, text in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")  # an unchanged page keeps its date and is not built again


def _outdated(*_: Any) -> list[str]:
    """Pages that show the code: Sphinx cannot see when it changes, so they are always built."""
    return ["reference/api", "reference/cli"]


def _escape(_app: Sphinx, _context: Any, lines: list[str]) -> None:
    """Escape what reStructuredText would read as mark-up in plain help texts, and set commands as code."""
    lines[:] = [_line(line) for line in lines]


def _examples(_app: Sphinx, context: Any, lines: list[str]) -> None:
    """Add the examples of a command's `--help` below its options."""
    shown = getattr(context.command, "examples", ())
    if shown:
        lines[:0] = ["Examples:", "", ".. code-block:: console", "", *(f"    {line}" for line in shown), ""]


def _line(line: str) -> str:
    bar, text = ("| ", line[2:]) if line.startswith("| ") else ("", line)
    if bar and text.startswith(_COMMANDS):
        return f"{bar}``{text}``"
    return bar + text.replace("*", r"\*").replace("|", r"\|")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", _write)
    app.connect("env-get-outdated", _outdated)
    for part in ("description", "epilog"):
        app.connect(f"sphinx-click-process-{part}", _escape)
    app.connect("sphinx-click-process-epilog", _examples)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
