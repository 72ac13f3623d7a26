"""Processes that compute answers: each question gets its own answer, also from a process that is slow to start."""

import asyncio
import json

import pytest
from served_pages import TEXT

from simulator.serving.calculators import Calculators

pytest.importorskip("starlette")


async def ask(calculators, page="page", **request):
    """The parts of an answer."""
    lines = await calculators.ask(page, json.dumps(request).encode())
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


@pytest.mark.long
def test_a_process_that_is_slow_to_start_answers_the_question_that_is_asked():
    early, none, answer = asyncio.run(converse())
    assert [part["part"] for part in early] == ["failed"]
    assert "more than 0.01 s" in early[0]["text"]
    assert [part["part"] for part in none] == ["problems"]
    assert answer[0]["part"] == "scenario"
    assert answer[-1]["part"] == "map"


@pytest.mark.long
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


HEAVY = TEXT.replace("nodes: 8", "nodes: 1024\n  stragglers: {jitter: 0.1}") + "fidelity: flows\niterations: 6000\n"
"""4,096 workers that differ from iteration to iteration: more than ten times as long as an ordinary question."""


async def ask_beside_heavy_ones():
    """What two heavy questions and an ordinary one have said once that one is answered; then what a third heavy one has
    said once it waits for its turn, and what the pages of the first and the third say that ask anew."""
    calculators, said = Calculators(TEXT, {}, limit_s=600.0), {}

    async def listen(page, text):
        said[page] = []
        async for line in await calculators.ask(page, json.dumps({"text": text}).encode()):
            said[page].append(json.loads(line)["part"])

    try:
        while not all(process.is_ready() for process in calculators._processes):
            await asyncio.sleep(0.05)
        heavy = [asyncio.create_task(listen(page, HEAVY)) for page in ("one", "two")]
        while not all(job.heavy for job in calculators._jobs):
            await asyncio.sleep(0.05)
        ordinary = asyncio.create_task(listen("ordinary", TEXT))
        while "answer" not in said.get("ordinary", []) and not ordinary.done():
            await asyncio.sleep(0.05)
        meanwhile = {page: list(parts) for page, parts in said.items()}
        await ordinary
        heavy.append(asyncio.create_task(listen("three", HEAVY)))
        await asyncio.sleep(0)
        third = next(job for job in calculators._jobs if job.page == "three")
        while not (third.said and third.waits) and not heavy[2].done():
            await asyncio.sleep(0.05)
        turned_away = list(said["three"])
        anew = [await ask(calculators, page, text="[1]") for page in ("three", "one")]
        await asyncio.gather(heavy[0], heavy[2])
        return meanwhile, turned_away, anew
    finally:
        calculators.close()


@pytest.mark.long
def test_an_ordinary_question_is_answered_while_heavy_ones_are_not():
    """A third heavy one leaves the last process to others, and what is asked anew is not kept waiting."""
    meanwhile, turned_away, anew = asyncio.run(ask_beside_heavy_ones())
    assert [meanwhile[page] for page in ("one", "two")] == [["scenario"], ["scenario"]]
    assert meanwhile["ordinary"][:2] == ["scenario", "answer"]
    assert turned_away == ["scenario"]
    assert [[part["part"] for part in parts] for parts in anew] == [["problems"], ["problems"]]
