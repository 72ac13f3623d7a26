"""Progress of a long study on stderr: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from simulator.progress import OBSERVED, Observe, Progress, Watch

LINE_SECONDS, REFRESH_SECONDS = 5.0, 0.1


@contextmanager
def show_progress(noun: str = "points") -> Iterator[Observe]:
    """A function that shows the progress that it is given."""
    shown = [0.0 if sys.stderr.isatty() else time.monotonic()]

    def tell(progress: Progress) -> None:
        if time.monotonic() - shown[0] >= LINE_SECONDS:
            shown[0] = time.monotonic()
            done = progress.reused + progress.evaluated
            print(f"{done} of {progress.total} {noun}, {pace(progress)}", file=sys.stderr, flush=True)

    if not sys.stderr.isatty():
        yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bars

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    # Not refreshed by a thread of its own: a process with one thread can be copied.
    with Bars(*columns, console=Console(stderr=True), auto_refresh=False) as bars:
        task = bars.add_task("", total=None)

        def show(progress: Progress) -> None:
            done, now = progress.reused + progress.evaluated, time.monotonic()
            refresh = now - shown[0] >= REFRESH_SECONDS
            shown[0] = now if refresh else shown[0]
            bars.update(task, total=progress.total, completed=done, description=pace(progress), refresh=refresh)

        yield show


@contextmanager
def show_count(noun: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function that shows how many of `total` are done; what its first call is given was done before."""
    began, first = time.monotonic(), list[int]()
    with show_progress(noun) as show:

        def count(done: int) -> None:
            if not first:
                first.append(done)
            show(Progress(total, first[0], done - first[0], seconds=time.monotonic() - began))

        yield count


@contextmanager
def watch_steps(noun: str = "steps") -> Iterator[Watch]:
    """Counts the steps of a command that answers soon, and shows them where somebody looks at a terminal."""
    if not sys.stderr.isatty():
        yield Watch()
        return
    with show_progress(noun) as show:
        yield Watch(show)


@contextmanager
def watch_replays() -> Iterator[None]:
    """Shows the replays of a trace that a command waits for, once they have taken a second."""
    with ExitStack() as stack:
        shown: list[Observe] = []

        def show(progress: Progress) -> None:
            if not shown and progress.seconds > 1:
                shown.append(stack.enter_context(show_progress("iterations of the trace")))
            for each in shown:
                each(progress)

        stack.callback(OBSERVED.reset, OBSERVED.set(show))
        yield


def pace(progress: Progress) -> str:
    """Rate, time left and failures, in words.

    >>> pace(Progress(total=100, evaluated=20, failed=1, seconds=10.0))
    '2.0 per second, 0:40 left, 1 failed'
    """
    parts = [f"{progress.rate:.3g} per second" if progress.rate >= 10 else f"{progress.rate:.1f} per second"]
    if progress.remaining is not None:
        seconds = round(progress.remaining)
        hours, minutes = seconds // 3600, seconds // 60 % 60
        parts.append((f"{hours}:{minutes:02}" if hours else f"{minutes}") + f":{seconds % 60:02} left")
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    return ", ".join(parts)
