"""The answer to a scenario in parts, the quickest first: what a page shows after each change."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, ValidationError, convert

from simulator.errors import InputError, Problem, collect_problems, format_value
from simulator.loading.documents import Document
from simulator.loading.finding import only_shipped_files
from simulator.models.small_cache import LatestResults
from simulator.prediction.doubts.spread import is_heavy
from simulator.prediction.doubts.verdict import judge
from simulator.prediction.run import Prediction, run, with_responses
from simulator.records import Record, Struct, field, replace
from simulator.scenario.changes import value_at, with_value, without_randomness
from simulator.scenario.reading import parse_scenario, scenario_of, versus_of
from simulator.scenario.scenario import Scenario
from simulator.scenario.titles import make_title
from simulator.serving.confinement import refuse_paths
from simulator.serving.forms import PLACE, bandwidth_key, change_text, form_of, rename, values_of
from simulator.serving.fragments import (
    REFUSED,
    MapCell,
    MapPlace,
    describe_cell,
    render,
    render_answer,
    render_difference,
    render_map,
)
from simulator.sparsifiers.dense import Dense
from simulator.studies.compare.opponent import Opponent, choose_opponent, compare_with_good, compared_with
from simulator.studies.compare.run_differences import RunOutcome, compare_runs

MAP_SECONDS = 15.0
"""The map is left out where it would take longer, judged by what this scenario took."""
_KEPT = 32
PAUSE_S = 0.06
"""A newer question that comes this soon after the quick answer, as while a slider is drawn, is answered at once."""

Part = dict[str, Any]
_Short = Annotated[str, Meta(max_length=1000)]


class PageRequest(Record):
    """What a page asks: the text of a scenario and the changes to it, and the text that is compared with (A).

    `shape`: which form the page has.
    """

    text: str = ""
    changes: Annotated[tuple[tuple[_Short, _Short], ...], Meta(max_length=50)] = ()
    pinned: str = ""
    shape: str = ""


class AnswerService(Struct):
    """Answers questions one after the other, and remembers what they share. `allowed`: files that may be named."""

    allowed: Mapping[str, Path]
    predictions: LatestResults[Prediction] = field(default_factory=lambda: LatestResults(_KEPT))
    opponents: LatestResults[Opponent | None] = field(default_factory=lambda: LatestResults(_KEPT))

    def parts(self, request: Any, stopped: Callable[[float], bool]) -> Iterator[Part]:
        """The parts of an answer, until `stopped`. Problems of the scenario are a part, and no exception.

        `stopped` waits so many seconds for a newer question, and says whether there is one.
        """
        text = ""
        try:
            with only_shipped_files(self.allowed):
                asked = convert(request, PageRequest)
                text = asked.text
                if asked.changes:
                    text = change_text(text, asked.changes)
                for part in self._answer(text, asked, stopped):
                    text = str(part.get("text", text))
                    yield part
            return
        except InputError as error:
            problems: Sequence[Problem] = error.problems
        except ValidationError:
            problems = [Problem("request", "the text of a scenario and short changes to it", format_value(request))]
        except (MemoryError, RecursionError, OverflowError, ArithmeticError) as error:
            what, hint = "a scenario that can be computed here", "choose smaller values"
            problems = [Problem(PLACE, what, type(error).__name__, hint)]
        yield {"part": "problems", "text": text, "problems": list(map(_describe_problem, problems))}

    def _answer(self, text: str, asked: PageRequest, stopped: Callable[[float], bool]) -> Iterator[Part]:
        began = time.process_time()  # what else this machine does makes no scenario a heavy one
        document = parse_scenario(text, PLACE)
        refuse_paths(document, self.allowed)
        scenario: Scenario | None = None
        problems: list[Problem] = []
        with collect_problems(problems):
            scenario = scenario_of(document.data, document, None)
        if scenario is not None and asked.changes:
            name = make_title(scenario)
            text, scenario = rename(text, name), scenario.model_copy(update={"name": name, "question": ""})
        yield self._scenario_part(text, document, scenario, asked.shape)
        if scenario is None:
            raise InputError(problems)
        prediction = self._predict(scenario)
        opponent = self._opponent(prediction, document)
        rival = None if opponent is None else self._predict(opponent.scenario)
        yield _answer_part(prediction, rival, opponent, final=False)
        took = time.process_time() - began
        if stopped(PAUSE_S):
            return
        prediction = self._respond(prediction)
        rival = None if rival is None else self._respond(rival)
        yield _answer_part(prediction, rival, opponent, final=True)
        if asked.pinned and not stopped(0):
            yield self._difference_part(asked.pinned, prediction)
        yield from self._map_parts(prediction, opponent, took, stopped)

    def _scenario_part(self, text: str, document: Document, scenario: Scenario | None, shape: str) -> Part:
        form = form_of(document.data, scenario)
        made = hashlib.sha256(repr(form).encode()).hexdigest()[:16]
        part = {"part": "scenario", "text": text, "values": values_of(form, document.data, scenario), "shape": made}
        return part | ({"form": render("form", form=form)} if made != shape else {})

    def _opponent(self, prediction: Prediction, document: Document) -> Opponent | None:
        scenario = prediction.scenario
        described = versus_of(document, None) if isinstance(scenario.versus, dict) else None
        if described is not None or not hasattr(scenario.sparsifier, "density"):
            return choose_opponent(scenario, described, search=not is_heavy(prediction.plan))
        # The fastest dense run is the same whatever the density, which a slider changes: this is half of an answer.
        plain = scenario.model_copy(update={"sparsifier": Dense()})
        key = (plain.digest, str(scenario.versus), scenario.sparsifier.kind)
        return self.opponents.get(key, lambda: choose_opponent(scenario, None, search=not is_heavy(prediction.plan)))

    def _predict(self, scenario: Scenario) -> Prediction:
        key = (scenario.digest, scenario.name)
        return self.predictions.get(key, lambda: run(scenario, keep_iterations=True))

    def _respond(self, prediction: Prediction) -> Prediction:
        scenario = prediction.scenario
        return self.predictions.get((scenario.digest, scenario.name, "sized"), lambda: with_responses(prediction))

    def _difference_part(self, pinned: str, prediction: Prediction) -> Part:
        document = parse_scenario(pinned, "scenario A")
        refuse_paths(document, self.allowed)
        one = self._respond(self._predict(scenario_of(document.data, document, None)))
        outcomes = [
            RunOutcome(side, item.result, item.scenario.resolved(), item)
            for side, item in (("A", one), ("B", prediction))
        ]
        return {"part": "difference", "html": render_difference(compare_runs(*outcomes))}

    def _map_parts(
        self, prediction: Prediction, opponent: Opponent | None, took: float, stopped: Callable[[float], bool]
    ) -> Iterator[Part]:
        scenario, plan = prediction.scenario, prediction.plan
        if opponent is None or isinstance(scenario.versus, dict) or scenario.sparsifier.kind == Dense.kind:
            reason = "It compares a method with dense: choose a method."
            yield {"part": "map", "html": render("map", heads=(), reason=reason)}
            return
        bandwidths, nodes = grid_around(scenario)
        slow = plan.flowing or plan.prices.flowed > 0 or is_heavy(plan)
        expected_s = took * len(bandwidths) * len(nodes)
        if slow or expected_s > MAP_SECONDS or scenario.workload.gradients:
            reason = f"It would take about {max(expected_s, 1):.0f} s here; `sparsim sweep break_even_map` computes it."
            yield {"part": "map", "html": render("map", heads=(), reason=reason)}
            return
        # Random differences between iterations are left out, and intervals are those of first order.
        steady = without_randomness(scenario.model_copy(update={"versus": None, "question": ""}))
        cells, key, own = dict[MapPlace, MapCell](), bandwidth_key(scenario), scenario.cluster.nodes
        for count in sorted(nodes, key=lambda number: abs(math.log(number / own))):
            for bandwidth in bandwidths:
                cells[count, bandwidth] = _cell(steady, {key: bandwidth, "cluster.nodes": count})
                if stopped(0):
                    return
            html = render_map(bandwidths, nodes, cells, (own, value_at(scenario, key)))
            yield {"part": "map", "intervals": "first_order", "html": html}


def _answer_part(prediction: Prediction, rival: Prediction | None, opponent: Opponent | None, final: bool) -> Part:
    result = prediction.result
    if rival is not None and opponent is not None:
        result = compared_with(opponent, prediction, rival)
    if final:
        result = replace(result, implementation=compare_with_good(prediction))
    # Those of the worker that finishes its own part last, in the last iteration.
    last = [each.iteration for each in (prediction, rival) if each is not None]
    spans = [iteration.spans_of(int(iteration.computed().argmax())) for iteration in last]
    intervals = "full" if final else "first_order"
    return {"part": "answer", "final": final, "intervals": intervals, "html": render_answer(result, spans, final)}


def _describe_problem(problem: Problem) -> Part:
    """A problem with the key, line and column that its place names."""
    parts = problem.where.split(": ")
    place = parts[0].split(":")
    line, column = (int(text) if text.isdecimal() else 0 for text in [*place[1:3], "", ""][:2])
    return {"text": str(problem), "key": parts[1] if len(parts) > 1 else "", "line": line, "column": column}


_FACTORS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Bandwidths of the map over the scenario's own."""
_DOUBLINGS = (-2, -1, 0, 1, 2)
_MOST_NODES = 512


def grid_around(scenario: Scenario) -> tuple[list[float], list[int]]:
    """Seven bandwidths and up to five numbers of nodes around the scenario's own, both ascending."""
    cluster, key = scenario.cluster, bandwidth_key(scenario)
    inside, own = "intra_node" in key, float(value_at(scenario, key))
    nodes = {cluster.nodes} if inside else {round(cluster.nodes * 2.0**step) for step in _DOUBLINGS} | {cluster.nodes}
    lowest = 1 if inside else 2
    tried = sorted(number for number in nodes if lowest <= number <= max(_MOST_NODES, cluster.nodes))
    factors = [factor for factor in _FACTORS if 1e3 <= own * factor <= 1e15]
    # All but the scenario's own to two digits in bits.
    bandwidths = [own if factor == 1 else float(f"{8 * own * factor:.1e}") / 8 for factor in factors]
    return bandwidths, tried or [cluster.nodes]


def _cell(scenario: Scenario, changes: Mapping[str, float]) -> MapCell:
    """A scenario with changes as a cell of the map."""
    try:
        for key, value in changes.items():
            scenario = with_value(scenario, key, value)
        opponent = choose_opponent(scenario, None)
        if opponent is None:
            return REFUSED
        prediction, rival = run(scenario), run(opponent.scenario)
    except InputError:
        return REFUSED
    mine, other = prediction.lasting, rival.lasting
    verdict = judge(mine, other)
    return (
        describe_cell(mine.time, other.time, verdict.word if verdict else "alike", opponent.words)
        if mine.time
        else REFUSED
    )
