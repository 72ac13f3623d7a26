"""Processes that compute answers: bounded in time and memory, and interrupted where a newer question makes one idle.

Every question begins as a quick one. One that has not ended after QUICK_S is heavy. Heavy ones never take the last
process: where it would, its process is ended and it waits for its turn. Nothing is interrupted inside Python, where an
exception that may come at any line ends as another library's error or leaves half a result behind.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from ctypes import c_byte
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from simulator.records import Struct, field

PROCESSES = 3
"""One answers while two others are at heavy questions, or finish the step that they are at."""
QUICK_S = 1.0
"""Seconds after which a question is a heavy one: the first answer to an ordinary one takes 0.05 to 0.15 s."""
LIMIT_S = 30.0
"""An answer that takes longer is given up."""
GRACE_S = 3.0
"""A process that has not stopped this long after it was asked to is ended."""
MOST_WAITING = 8
MEMORY_BYTES = 8 * 2**30
"""Address space of a process, where the system limits it."""
_SLICE_S, _LOOK_S = 0.05, 0.01
_END = b""


class BusyError(Exception):
    """Too many questions wait."""


class _Process:
    """One process with its pipe, started at once."""

    def __init__(self, text: str, allowed: Mapping[str, Path]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        # No event: its lock would stay held for ever by a process that is ended while it looks.
        self.stop: c_byte = context.RawValue("b", 0)
        self.process: SpawnProcess = context.Process(
            target=_calculate, args=(far, self.stop, text, dict(allowed)), daemon=True, name="sparsim serve, answers"
        )
        self.process.start()
        far.close()
        self.busy = self.ready = False

    def wait(self, seconds: float) -> None:
        """Wait until the process is ready to answer, but not longer than this."""
        if self.pipe.poll(seconds):
            self.pipe.recv_bytes()
            self.ready = True

    def end(self) -> None:
        """End the process, whatever it is at."""
        self.process.kill()
        self.process.join(1)
        self.pipe.close()


class _PageJob(Struct):
    """A question of a page. `said`: how many lines it was answered; `waits`: whether it has no process now; `heavy`:
    whether it has a place among the heavy ones."""

    page: str
    request: bytes
    lines: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    said: int = 0
    waits: bool = True
    heavy: bool = False
    task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Nobody wants the answer any more."""
        self.stopped.set()
        if self.waits and self.task is not None:
            self.task.cancel()


class Calculators:
    """Answers questions of pages, each with the newest question of its page.

    `text`: a scenario that processes answer once before anybody asks; `allowed`: files that scenarios may name.
    """

    def __init__(self, text: str, allowed: Mapping[str, Path], limit_s: float = LIMIT_S) -> None:
        self._text, self._allowed, self._limit_s = text, allowed, limit_s
        self._processes = [_Process(text, allowed) for _ in range(PROCESSES)]
        self._free, self._heavy = asyncio.Semaphore(PROCESSES), asyncio.Semaphore(PROCESSES - 1)
        self._jobs: list[_PageJob] = []

    async def wait(self) -> None:
        """Wait until the first process is ready, so that the first question is answered at once."""
        with suppress(OSError, EOFError):
            await asyncio.to_thread(self._processes[0].wait, self._limit_s)

    async def ask(self, page: str, request: bytes) -> AsyncIterator[bytes]:
        """The parts of an answer as lines of JSON. Older questions of the page are stopped. Raises BusyError."""
        for job in self._jobs:
            if job.page == page:
                job.stop()
        if sum(not job.stopped.is_set() for job in self._jobs) >= MOST_WAITING + PROCESSES:
            raise BusyError
        job = _PageJob(page, request)
        self._jobs.append(job)
        job.task = asyncio.create_task(self._run(job))
        job.task.add_done_callback(lambda _: self._end(job))
        return self._lines(job)

    def _end(self, job: _PageJob) -> None:
        self._jobs.remove(job)
        job.lines.put_nowait(None)

    async def _lines(self, job: _PageJob) -> AsyncIterator[bytes]:
        try:
            while (line := await job.lines.get()) is not None:
                yield line + b"\n"
        finally:
            job.stop()  # whoever asked is gone, or has it all

    async def _run(self, job: _PageJob) -> None:
        """Ask a process, and once more when there is a place where a heavy question had none."""
        try:
            while await self._ask_one(job) and not job.stopped.is_set():
                await self._heavy.acquire()
                job.heavy = True
        finally:
            if job.heavy:
                self._heavy.release()

    async def _ask_one(self, job: _PageJob) -> bool:
        """Wait for a free process, and pass on what it sends; whether it has to wait for its turn as a heavy one."""
        async with self._free:
            job.waits = False
            turned_away = await self._compute(job, next(process for process in self._processes if not process.busy))
        job.waits = True
        return turned_away

    async def _compute(self, job: _PageJob, process: _Process) -> bool:
        turned_away, gone, process.busy = False, True, True
        try:
            process.stop.value = 0
            if not process.ready:
                await asyncio.to_thread(process.wait, self._limit_s)
            if process.ready:
                await asyncio.to_thread(process.pipe.send_bytes, job.request)
                said, turned_away = await self._pass_on(job, process)
            else:  # it still starts, and may answer the next question
                said, gone = f"more than {self._limit_s:g} s", False
        except (OSError, EOFError):  # the process is gone: out of memory
            said = "more memory or time than a page may use"
        if turned_away or (said and gone):
            process.end()
            self._processes.remove(process)
            self._processes.append(_Process(self._text, self._allowed))  # the last to be asked, since it has to start
        if said and not job.stopped.is_set():
            text = f"scenario: expected an answer within {LIMIT_S:g} s, got {said}: `sparsim run` has no limit"
            job.lines.put_nowait(json.dumps({"part": "failed", "text": text}).encode())
        process.busy = False
        return turned_away

    async def _pass_on(self, job: _PageJob, process: _Process) -> tuple[str, bool]:
        """Pass on all that a process sends and was not said before; the reason where it had to be given up, else
        nothing; and whether it was because it has to wait for its turn as a heavy one."""
        began, number = time.monotonic(), 0
        until, asked_to_stop = began + self._limit_s, False
        while time.monotonic() < until:
            if job.stopped.is_set() and not asked_to_stop:
                asked_to_stop = True
                process.stop.value = 1
                until = min(until, time.monotonic() + GRACE_S)
            if not job.heavy and time.monotonic() > began + QUICK_S:
                if self._heavy.locked():
                    return "", True
                await self._heavy.acquire()
                job.heavy = True
            if await asyncio.to_thread(process.pipe.poll, _SLICE_S):
                line = await asyncio.to_thread(process.pipe.recv_bytes)
                if line == _END:
                    return "", False
                number += 1
                if number > job.said:
                    job.said = number
                    job.lines.put_nowait(line)
        return f"more than {self._limit_s:g} s", False

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.end()


def _calculate(pipe: Connection, stop: c_byte, text: str, allowed: dict[str, Path]) -> None:
    """What a process does: answer one request after the other until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from simulator.serving.answering import AnswerService
    from simulator.serving.confinement import lock_files

    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    answers = AnswerService(allowed)
    # The first answer reads what all others need again.
    for _ in answers.parts({"text": text}, lambda _: True):
        pass
    lock_files(allowed)
    pipe.send_bytes(_END)
    with suppress(EOFError, OSError):
        while True:
            for part in _parts(answers, pipe.recv_bytes(), stop):
                pipe.send_bytes(json.dumps(part, allow_nan=False).encode())
            pipe.send_bytes(_END)


def _wait_for_stop(stop: c_byte, seconds: float) -> bool:
    """Whether a newer question stops this one within so many seconds."""
    until = time.monotonic() + seconds
    while not stop.value and time.monotonic() < until:
        time.sleep(_LOOK_S)
    return bool(stop.value)


def _parts(answers: Any, request: bytes, stop: c_byte) -> Any:
    try:
        asked = json.loads(request)
    except (ValueError, RecursionError):
        yield {"part": "failed", "text": "request: expected JSON, got something else"}
        return
    try:
        yield from answers.parts(asked, partial(_wait_for_stop, stop))
    except Exception as error:
        text = f"scenario: not computed because of an error of sparsim: {type(error).__name__}"
        yield {"part": "failed", "text": text}
