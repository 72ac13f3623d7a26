"""Commands from functions: their parameters, types, defaults and help are those of the signature and the docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, cast, get_args, get_origin

import click

_TYPES = {
    str: click.STRING,
    int: click.INT,
    float: click.FLOAT,
    Path: click.Path(dir_okay=False, path_type=Path),
}
"""How the texts of a command line are read where the annotation says no more than the type of the value."""


class Written(NamedTuple):
    """How an option is written: its names on the command line, and further settings of `click.Option`."""

    names: tuple[str, ...]
    settings: dict[str, Any]


def written(*names: str, **settings: Any) -> Written:
    """Names and settings of an option, for its annotation, where those that its parameter gives do not fit."""
    return Written(names, settings)


def command(group: click.Group, **settings: Any) -> Callable[[Callable[..., None]], click.Command]:
    """Make the decorated function a command of a group: `calibrate_network` is `network` of the group `calibrate`.

    The docstring is its help. Positional parameters are arguments, keyword-only ones are options, in their order; those
    without a default are required, but for options whose type is `bool` (flags), `tuple[TYPE, ...]` (which may be given
    several times) or allows None. `Annotated[TYPE, ...]` may add, in any order, a text (the help of an option, the
    metavar of an argument), the `click.ParamType` that reads the value, and how it is `written`. `Literal` is a choice.
    `settings` are those of `click.Command`.
    """

    def add(function: Callable[..., None]) -> click.Command:
        name = function.__name__.removeprefix(f"{group.name}_").strip("_").replace("_", "-")
        return group.command(name, **settings)(function)

    return add


class SignedCommand(click.Command):
    """A command whose parameters are those of its function, but for those that decorators of click gave it.

    `examples`: the command lines that the docstring ends with; help shows them below the options, and tests run them.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["help"], _, examples = inspect.cleandoc(kwargs["help"]).partition("\n\nExamples:\n")
        super().__init__(*args, **kwargs)
        self.examples = tuple(line.strip() for line in examples.splitlines())
        if not self.params:
            del self.params  # they are made when they are asked for: a list of commands needs none

    @cached_property
    def params(self) -> list[click.Parameter]:  # type: ignore[override]
        """Arguments and options in the order of the help."""
        signed = inspect.signature(cast("Any", self.callback), eval_str=True).parameters
        return list(map(_make_parameter, signed.values()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, as they are typed, then the rest of the text below the options."""
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    # A command line is to be copied: never wrapped.
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
        super().format_epilog(ctx, formatter)


class SignedGroup(SignedCommand, click.Group):
    """A group of such commands; with `invoke_without_command` one itself, where its first word names none of them."""

    command_class = SignedCommand

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context of the group, or of the command that the first word names."""
        if self.invoke_without_command and args and args[0] in self.commands:
            name, *args = args
            return self.commands[name].make_context(f"{info_name} {name}", args, parent, **extra)
        return super().make_context(
            info_name, args, parent, allow_interspersed_args=self.invoke_without_command, **extra
        )


SignedGroup.group_class = SignedGroup


def _make_parameter(item: inspect.Parameter) -> click.Parameter:
    plain, said = _take_apart(item.annotation)
    several = tuple in said
    kind = next((part for part in said if isinstance(part, click.ParamType)), _TYPES.get(plain))
    text = next((part for part in said if isinstance(part, str)), None)
    names, more = next((part for part in said if isinstance(part, Written)), Written((), {}))
    stated: dict[str, Any] = {"required": item.default is item.empty}
    if item.default not in (item.empty, None, ()):
        stated["default"] = item.default
    if item.kind is not item.KEYWORD_ONLY:
        return click.Argument([item.name], type=kind, metavar=text, nargs=-1 if several else 1, **stated)
    stated["required"] &= not (several or plain is bool or NoneType in said)
    shown = not isinstance(item.default, bool) and stated.get("default") not in (None, "")
    names = names or (f"--{item.name.replace('_', '-')}",)
    stated |= {"multiple": several, "is_flag": plain is bool or None, "show_default": shown, "help": text, **more}
    return click.Option([item.name, *names], type=kind, **stated)


def _take_apart(annotation: Any) -> tuple[Any, list[Any]]:
    """The type of one value, and what is said about it, the outermost first, `tuple` and `NoneType` among it."""
    said: list[Any] = []
    while (origin := get_origin(annotation)) is not None:
        annotation, *inner = get_args(annotation)
        if origin is Literal:
            return str, [*said, click.Choice([annotation, *inner])]
        if origin is tuple and inner != [...]:
            return tuple, said
        said += [tuple] if origin is tuple else inner
    return annotation, said
