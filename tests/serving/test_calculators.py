"""Processes that compute answers: each question gets its own answer, also from a process that is slow to start."""

import asyncio
import json
import math
from ctypes import c_byte
from multiprocessing import Pipe

import pytest
from served_pages import TEXT

from simulator.serving.calculators import Calculators, _Process

pytest.importorskip("starlette")


class Scripted(_Process):
    """A process that says what the test tells it to, as soon as it has started."""

    started = True

    def __init__(self, text, allowed):
        assert (text, allowed) == (TEXT, {})
        self.pipe, self.far = Pipe()
        self.stop = c_byte(0)
        self.busy = self.ready = self.ended = False
        if self.started:
            self.say("")

    def end(self):
        self.ended = True
        self.pipe.close()

    def say(self, *parts):
        for part in parts:
            self.far.send_bytes(json.dumps({"part": part}).encode() if part else b"")


@pytest.fixture
def asking(monkeypatch):
    """Calculators with scripted processes, on which a question is heavy only once the test says so."""
    monkeypatch.setattr("simulator.serving.calculators._Process", Scripted)
    monkeypatch.setattr("simulator.serving.calculators.QUICK_S", math.inf)
    return Asking(monkeypatch)


class Asking:
    """Pages that ask, what they were told so far, and the processes that were asked. No step depends on how long
    another takes."""

    def __init__(self, monkeypatch):
        self.monkeypatch, self.calculators, self.said = monkeypatch, Calculators(TEXT, {}, limit_s=1e3), {}

    async def begin(self, page):
        """The task of a page that asks."""
        self.said[page] = []
        lines = await self.calculators.ask(page, page.encode())

        async def listen():
            async for line in lines:
                self.said[page].append(json.loads(line)["part"])

        return asyncio.create_task(listen())

    async def process(self, page):
        """The process that is asked by this page."""
        while not (asked := [item for item in self.calculators._processes if not item.ended and item.far.poll()]):
            await asyncio.sleep(0.001)
        assert [item.far.recv_bytes() for item in asked] == [page.encode()]
        return asked[0]

    async def until(self, holds):
        while not holds():
            await asyncio.sleep(0.001)

    async def heavy(self, page):
        """The process and the task of a page whose question has said its first part and is found to be heavy."""
        task = await self.begin(page)
        process, job = await self.process(page), self.calculators._jobs[-1]
        process.say("scenario")
        await self.until(lambda: self.said[page])
        with self.monkeypatch.context() as at_once:
            at_once.setattr("simulator.serving.calculators.QUICK_S", 0.0)
            await self.until(lambda: job.heavy or job.waits)
        return process, task

    async def answer(self, page):
        """An ordinary question of a page, answered by any process."""
        task = await self.begin(page)
        (await self.process(page)).say("scenario", "answer", "")
        await task
        return self.said[page]


def test_a_process_that_is_slow_to_start_answers_the_question_that_is_asked(asking):
    """Waited for in vain, at the start and by a first question, it has nothing to say that a later one would get."""

    async def ask_early():
        asking.calculators._limit_s = 0.01
        await asking.calculators.wait()
        await (await asking.begin("early"))
        processes, asking.calculators._limit_s = asking.calculators._processes, 1e3
        assert asking.said["early"] == ["failed"]
        assert not any(process.far.poll() or process.ended for process in processes)
        for process in processes:
            process.say("")
        assert await asking.answer("late") == ["scenario", "answer"]

    asking.monkeypatch.setattr(Scripted, "started", False)
    asking.calculators = Calculators(TEXT, {})
    asyncio.run(asyncio.wait_for(ask_early(), 300))


def test_an_ordinary_question_is_answered_while_heavy_ones_are_not(asking):
    """A third heavy one leaves the last process to others. Once there is a place it is answered, no part said twice."""

    async def ask_beside_heavy_ones():
        one, task = await asking.heavy("one")
        await asking.heavy("two")
        assert await asking.answer("ordinary") == ["scenario", "answer"]
        third, waiting = await asking.heavy("three")
        assert (one.ended, third.ended) == (False, True)
        assert await asking.answer("another") == ["scenario", "answer"]
        assert asking.said == {"one": ["scenario"], "two": ["scenario"], "three": ["scenario"]} | {
            page: ["scenario", "answer"] for page in ("ordinary", "another")
        }
        one.say("answer", "")
        await task
        (await asking.process("three")).say("scenario", "answer", "map", "")
        await waiting
        assert asking.said["three"] == ["scenario", "answer", "map"]

    asyncio.run(asyncio.wait_for(ask_beside_heavy_ones(), 300))


def test_what_is_asked_anew_is_not_kept_waiting(asking):
    """Neither by the heavy question of its page that is computed, which is told to stop, nor by one that waits."""

    async def ask_anew():
        one, first = await asking.heavy("one")
        await asking.heavy("two")
        _, third = await asking.heavy("three")
        assert await asking.answer("three") == ["scenario", "answer"]
        assert await asking.answer("one") == ["scenario", "answer"]
        await third
        await asking.until(lambda: one.stop.value)
        one.say("")
        await first
        assert not one.ended

    asyncio.run(asyncio.wait_for(ask_anew(), 300))
