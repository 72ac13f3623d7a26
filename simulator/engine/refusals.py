"""What the engine refuses, as an input error that says where."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic_core import PydanticCustomError

from simulator.engine.rounds.disturbances import Stalled, TooManyMessages
from simulator.errors import InputError, Problem
from simulator.plugins import blame


@contextmanager
def as_input_error(where: str) -> Iterator[None]:
    """Turn what the engine refuses, and what a plug-in's code gets wrong, into an InputError that says where."""
    try:
        yield
        return
    except PydanticCustomError as error:
        context = error.context or {}
        problem = (context["what"], context["got"], context["hint"])
    except Stalled as error:
        links = ", ".join(error.args[0]) or "its links"
        hint = "a link that is down for good blocks the exchange: give it an `until`, or a `factor` above 0"
        problem = ("every exchange to end", f"workers that wait for {links} for ever", hint)
    except TooManyMessages as error:
        hint = "fewer workers, a topology with fewer rounds, or `fidelity: fold`"
        problem = ("an exchange that flows can follow", f"{error.args[0]:,} messages", hint)
    except Exception as error:
        if (blamed := blame(error)) is None:
            raise
        raise InputError(blamed) from None
    raise InputError(Problem(where, *problem))
