"""What is printed, as lines; and checked: no line beyond 100 columns, no broken words."""

import io

from rich.console import Console

from simulator.reporting.terminal import printing

COLUMNS = 100
COPIED = ("  sparsim ", "  export ", "  model", "  state", "  torch.", "  from ")
"""How lines begin that are to be copied, and so are never wrapped."""


def lines_of(blocks, width):
    """Blocks as lines of a terminal of this width."""
    out = io.StringIO()
    printing.print_blocks(blocks, Console(file=out, width=width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


class WatchedConsole(Console):
    """A console that remembers the words that it is given."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.in_rows = False
        self.words, self.wide = set(), Console(width=100_000, quiet=True)
        self.same = Console(file=io.StringIO(), width=COLUMNS)

    def print_rows(self, printed, table, console):
        heads = [column.label for column in table.columns]
        self.words |= {word for row in ([table.title], heads, *table.rows) for cell in row for word in cell.split()}
        self.in_rows = True  # what is printed from now on is made of these words
        printed(table, console)
        self.in_rows = False

    def out(self, *objects, **kwargs):
        self.same.out(*objects, **kwargs)
        super().out(*objects, **kwargs)

    def print(self, *objects, **kwargs):
        for item in objects:
            if not self.in_rows:
                with self.wide.capture() as captured:
                    self.wide.quiet = False
                    self.wide.print(item, **kwargs)
                self.words |= set(captured.get().split())
        self.same.print(*objects, **kwargs)
        super().print(*objects, **kwargs)

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
    printed = printing.print_rows
    monkeypatch.setattr(printing, "print_rows", lambda *given: made.print_rows(printed, *given))
    return made


def _redirect(console):
    """The console, on what is stdout now."""
    console.file = None
    return console
