"""A period of local steps: what each worker does by itself between exchanges with the others."""

from __future__ import annotations

from typing import NamedTuple


class Fragment(NamedTuple):
    """A part of the model that is exchanged once in a period, by steps counted from the period's start.

    Its exchange starts after step `ready`; compute waits for it after step `due`, in the next period where that is
    beyond the last step.
    """

    ready: int
    due: int


class Event(NamedTuple):
    """After `step` steps of a period: the exchange of a fragment starts, or compute waits for it (`waits`).

    `earlier`: it is the exchange that the period before started.
    """

    step: int
    fragment: int
    waits: bool
    earlier: bool = False


class Period(NamedTuple):
    """So many steps, in which each of `fragments` is exchanged once.

    `together`: an exchange starts when the slowest worker is ready; otherwise each worker goes on by itself.
    """

    steps: int
    fragments: tuple[Fragment, ...]
    together: bool = True

    @property
    def crosses(self) -> bool:
        """Whether an exchange is still under way when the next period starts."""
        return any(fragment.due > self.steps for fragment in self.fragments)

    def events(self) -> list[Event]:
        """Starts and waits in order; after one step, waits for earlier starts come first.

        >>> [(event.step, event.waits, event.earlier) for event in Period(4, (Fragment(2, 4), Fragment(4, 6))).events()]
        [(2, True, True), (2, False, False), (4, True, False), (4, False, False)]
        """
        made = []
        for number, (ready, due) in enumerate(self.fragments):
            made.append(((ready, 1), Event(ready, number, waits=False)))
            earlier = due > self.steps
            order = 2 if due == ready else 0
            made.append(((due - self.steps * earlier, order), Event(due - self.steps * earlier, number, True, earlier)))
        return [event for _, event in sorted(made)]
