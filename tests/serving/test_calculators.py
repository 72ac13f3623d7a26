"""Processes that compute answers: each question gets its own answer, also from a process that is slow to start."""

import asyncio
import json

import pytest
from served_pages import TEXT

from simulator.serving.calculators import Calculators

pytest.importorskip("starlette")


async def ask(calculators, **request):
    """The parts of an answer."""
    lines = await calculators.ask("page", json.dumps(request).encode())
    return [json.loads(line) async for line in lines]


async def converse():
    """What is said while no process has started, then by those that were waited for in vain at first."""
    calculators = Calculators(TEXT, {}, limit_s=0.01)
    try:
        await calculators.wait()
        early = await ask(calculators, text=TEXT)
        calculators._limit_s = 100.0
        return early, await ask(calculators, text="[1]"), await ask(calculators, text=TEXT)
    finally:
        calculators.close()


def test_a_process_that_is_slow_to_start_answers_the_question_that_is_asked():
    early, none, answer = asyncio.run(converse())
    assert [part["part"] for part in early] == ["failed"]
    assert "more than 0.01 s" in early[0]["text"]
    assert [part["part"] for part in none] == ["problems"]
    assert answer[0]["part"] == "scenario"
    assert answer[-1]["part"] == "map"


def test_a_wait_in_vain_at_the_start_is_no_answer():
    async def first():
        calculators = Calculators(TEXT, {}, limit_s=0.01)
        try:
            await calculators.wait()
            calculators._limit_s = 100.0
            return await ask(calculators, text="[1]")
        finally:
            calculators.close()

    assert [part["part"] for part in asyncio.run(first())] == ["problems"]
