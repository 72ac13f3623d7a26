"""What a command prints, checked: no line beyond 100 columns, no broken words."""

import io

from rich.console import Console
from rich.table import Table

COLUMNS = 100
COPIED = ("  sparsim ", "  export ", "  model", "  state", "  torch.", "  from ")
"""How lines begin that are to be copied, and so are never wrapped."""


class WatchedConsole(Console):
    """A console that remembers the words that it is given."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.words, self.wide = set(), Console(width=100_000, quiet=True)
        self.same = Console(file=io.StringIO(), width=COLUMNS)

    def print(self, *objects, **kwargs):
        for item in objects:
            if isinstance(item, Table):
                cells = [cell for column in item.columns for cell in (column.header, *column.cells)]
                self.words |= {word for cell in (*cells, item.title or "") for word in self._plain(cell).split()}
            else:
                with self.wide.capture() as captured:
                    self.wide.quiet = False
                    self.wide.print(item, **kwargs)
                self.words |= set(captured.get().split())
        self.same.print(*objects, **kwargs)
        super().print(*objects, **kwargs)

    def _plain(self, cell):
        return self.render_str(cell).plain if isinstance(cell, str) else str(cell)

    def check(self, output):
        """Lines fit, and what the console printed is made of the words that it was given."""
        for line in output.splitlines():
            assert len(line.rstrip()) <= COLUMNS or line.startswith(COPIED), (len(line), line)
        if self.words:
            broken = [word for word in self.same.file.getvalue().split() if word not in self.words]
            assert not broken, broken


def watch_console(monkeypatch):
    """The console that the command line prints on from now on."""
    made = WatchedConsole(width=COLUMNS)
    monkeypatch.setattr("simulator.cli.root.make_console", lambda: _redirect(made))
    return made


def _redirect(console):
    """The console, on what is stdout now."""
    console.file = None
    return console
