"""Commands that show examples of themselves: below the options of `--help`, and run by the tests."""

from __future__ import annotations

from typing import Any

import click


class _WithExamples(click.Command):
    """A command with `examples`: whole command lines, one a line."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(line.strip() for line in examples.strip().splitlines())

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, as they are typed, and then what else there is to say."""
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    # A command line is to be copied: never wrapped.
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
        super().format_epilog(ctx, formatter)


class ExampleCommand(_WithExamples):
    """A command with examples."""


class ExampleGroup(_WithExamples, click.Group):
    """A group with examples, of commands and groups with examples."""

    command_class = ExampleCommand


ExampleGroup.group_class = ExampleGroup
