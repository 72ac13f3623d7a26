"""The command `sparsim`: errors and exit codes, and how a document is printed."""

from __future__ import annotations

import atexit
import errno
import gc
import json
import os
import sys
from collections import UserDict
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from simulator.cli.signatures import SignedGroup
from simulator.cli.terminals import completion_script, print_look_alikes
from simulator.errors import Problem, SparsimError

if TYPE_CHECKING:
    from rich.console import Console

    from simulator.progress import Watch

MODULES = {"calibrate": "calibration", "list": "listing", "new": "new", "record": "record", "reproduce": "papers"}
MODULES |= {"trace": "traces", **dict.fromkeys(("report", "serve", "timeline"), "reports")}
MODULES |= dict.fromkeys(("check", "collective", "plan", "run"), "runs")
MODULES |= dict.fromkeys(("advise", "compare", "explain", "quality", "sweep", "validate"), "studies")
"""The module of this package that has a command, by the name of the command."""
RENAMED = {
    "completion": "--completion",
    "figure --list": "list figures",
    "figure": "report --figure",
    "kernels": "list kernels",
    "new-method": "new method",
    "schedule": "new from",
    "schema": "list schemas",
    "train": "record training",
    "workload": "list workload",
}
"""First words of earlier versions, and what they are now. An option at the end takes the first argument."""
_MEANT = {"--workload": "--model"}
"""What people mean by options that are spelt like others."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as of a program that the shell ended."""
_COLLECT_AFTER = 200_000
"""New objects after which the garbage collector looks for circles: they take some ten megabytes."""
WIDTH = 100
"""Columns that all output fits into, but for lines that are to be copied."""


class _Commands(UserDict[str, Any]):
    """Commands by name; first the names of their modules, each of which is imported when its command is asked for."""

    def __getitem__(self, name: str) -> Any:
        if isinstance(self.data[name], str):
            import_module(f"simulator.cli.{self.data[name]}")
        return self.data[name]


class _Root(SignedGroup):
    """The command itself: prints errors of the package as one line each, and exits with code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command. Short ones end before the garbage collector would first look through all that was imported."""
        gc.set_threshold(_COLLECT_AFTER)
        # At its end Python would look for circles once more, a tenth of a second, although all memory is given back.
        atexit.register(gc.freeze)
        # Pydantic would look through all installed packages for plug-ins of its own.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        print_look_alikes()
        return super().main(*args, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of a command; those of an earlier version are replaced, and a line says by what."""
        old = next((words for words in RENAMED if args[: len(words.split())] == words.split()), None)
        if old is not None:
            args = self._rename(args[len(old.split()) :], RENAMED[old].split())
            if not ctx.resilient_parsing:  # not of a shell that completes
                click.echo(f"`sparsim {old}` is now `sparsim {RENAMED[old]}`.", err=True)
        return super().parse_args(ctx, args)

    def _rename(self, given: list[str], words: list[str]) -> list[str]:
        """The new words with what was given; an option among the words is put before the first argument."""
        if not words[-1].startswith("--"):
            return [*words, *given]
        params = self.commands[words[0]].params if words[1:] else ()
        valued = {name for each in params if isinstance(each, click.Option) and not each.is_flag for name in each.opts}
        place = 0
        while place < len(given) and given[place].startswith("-") and given[place] != "-":
            place += 2 if given[place] in valued else 1
        return [*words[:-1], *given[:place], *(words[-1:] if given[place:] else ()), *given[place:]]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            meant = _MEANT.get(getattr(error, "option_name", ""))
            if error.ctx and meant in [name for each in error.ctx.command.params for name in each.opts]:
                error.possibilities = [meant]  # type: ignore[attr-defined]
            raise
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except Exception as error:
            from simulator.plugins import blame

            text = str(blame(error) or (error if isinstance(error, SparsimError) else _system_error_text(error)))
            if not text:
                raise
            click.echo(text, err=True)
            ctx.exit(2)


def _system_error_text(error: Exception) -> str:
    """The message for a file or memory that the system refused; empty for any other error."""
    if isinstance(error, OSError) and error.errno is not None and error.errno != errno.EPIPE:
        hint = "make room and try again" if error.errno == errno.ENOSPC else ""
        what, got = "a file that can be read or written", error.strerror or type(error).__name__
        return str(Problem(str(error.filename or "sparsim"), what, got, hint))
    if isinstance(error, MemoryError):
        return str(Problem("sparsim", "input that fits into memory", str(error) or "more", "ask for something smaller"))
    return ""


def _print_completion(ctx: click.Context, _: click.Parameter, shell: str | None) -> None:
    if shell is not None and not ctx.resilient_parsing:
        click.echo(completion_script(ctx.command, shell))
        ctx.exit()


@click.group(cls=_Root, commands=_Commands(MODULES), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sparsim")
@click.option(
    "--completion",
    type=click.Choice(["bash", "zsh", "fish"]),
    help="Print a script for completion in a shell.",
    is_eager=True,
    expose_value=False,
    callback=_print_completion,
)
def main() -> None:
    """Simulate data-parallel GPU training with compressed gradients.

    Sparsim predicts how long an iteration takes on a cluster, and whether compressing the gradients makes it faster.

    Examples:
        sparsim run quickstart
        sparsim run my.yaml --set sparsifier.density=0.01 --set cluster.nodes=16
        sparsim validate
        eval "$(sparsim --completion bash)"
    """


def print_json(document: Any) -> None:
    """Print an answer, or a mapping or list with answers in it, as one JSON document."""
    from simulator.answers import plain

    click.echo(json.dumps(plain(document), indent=2, allow_nan=False))


def print_document(document: Any, as_json: bool, blocks: str, module: str, *asked: Any) -> None:
    """Print a document as JSON, or as the blocks that a function of a module of `reporting.wording` makes of it and of
    what is `asked`."""
    if as_json:
        print_json(document)
    else:
        from simulator.reporting.terminal.printing import print_blocks

        made = getattr(import_module(f"simulator.reporting.wording.{module}"), blocks)(document, *asked)
        print_blocks(made, make_console())


def exit_if_interrupted(watch: Watch, what: str = "what is printed is what was done until then") -> None:
    """End the command with the exit code of an interruption, if there was one, and say what is there."""
    if watch.interrupted:
        click.echo(f"interrupted during {watch.interrupted}; {what}", err=True)
        click.get_current_context().exit(INTERRUPTED)


def line_width() -> int:
    """Columns of the terminal; where there is none, those that all output is made for."""
    from shutil import get_terminal_size

    return get_terminal_size((WIDTH, 24)).columns


def say(text: str, err: bool = False, indent: str = "") -> None:
    """Print a message in lines of the terminal's width, without broken words; lines that follow begin with `indent`."""
    from textwrap import wrap

    width = line_width()
    kept = {"break_long_words": False, "break_on_hyphens": False, "subsequent_indent": indent}
    for line in text.splitlines():
        click.echo("\n".join(wrap(line, width, **kept)), err=err)  # type: ignore[arg-type]


def make_console() -> Console:
    """The console that tables are printed on."""
    from rich.console import Console

    # Not a terminal: no width is known, so the one that all output is made for.
    return Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDTH, soft_wrap=False)
