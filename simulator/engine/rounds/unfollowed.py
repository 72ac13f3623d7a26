"""Why an exchange cannot be followed message by message: it never ends, or has too many messages."""

from __future__ import annotations


class Stalled(Exception):
    """Some flows will never end; the error carries the names of the dead links that they wait for."""


class TooManyMessages(Exception):
    """An exchange has more different messages than one machine can follow; the error carries their number."""
