"""The progress of a sweep, in words and as a bar."""

import io
import sys

import pytest

from simulator.progress import OBSERVED, Progress
from simulator.reporting.terminal import progress as shown


def test_without_a_terminal_progress_is_lines(monkeypatch, capsys):
    monkeypatch.setattr(shown, "LINE_SECONDS", 0.0)
    with shown.show_progress() as observe:
        observe(Progress(total=40, reused=10, evaluated=10, failed=1, seconds=0.5))
    assert capsys.readouterr().err == "20 of 40 points, 20 per second, 0:01 left, 1 failed\n"


def test_replays_are_shown_once_they_have_taken_a_second(monkeypatch, capsys):

    monkeypatch.setattr(shown, "LINE_SECONDS", 0.0)
    with shown.watch_replays():
        for evaluated, seconds in ((1, 0.5), (3, 1.5)):
            OBSERVED.get()(Progress(total=4, evaluated=evaluated, seconds=seconds))
    assert capsys.readouterr().err == "3 of 4 iterations of the trace, 2.0 per second, 0:00 left\n"
    assert OBSERVED.get() is None


class Terminal(io.StringIO):
    """What a person looks at."""

    def isatty(self):
        return True


def test_on_a_terminal_progress_is_a_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with shown.show_progress() as observe:
        observe(Progress(total=40, reused=10))
        observe(Progress(total=40, reused=10, evaluated=10, failed=1, seconds=0.5))
    last = screen.getvalue().rpartition("\n")[0].splitlines()[-1]
    assert "20/40" in last and "20 per second, 0:01 left, 1 failed" in last and "━" in last


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        ({"total": 40, "reused": 10}, "0.0 per second"),  # before the first point nothing is known of the rest
        ({"total": 4, "evaluated": 4, "seconds": 2.0}, "2.0 per second, 0:00 left"),
        ({"total": 40_000, "evaluated": 400, "seconds": 100.0}, "4.0 per second, 2:45:00 left"),
    ],
)
def test_the_pace_in_words(progress, words):
    assert shown.pace(Progress(**progress)) == words
