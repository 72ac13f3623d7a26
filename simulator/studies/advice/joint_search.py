"""Searches of several duels at the same time: what all of them need for their next step is simulated together."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.errors import InputError
from simulator.prediction.doubts.spread import Spread
from simulator.prediction.run import Prediction, run_batch, with_responses_of
from simulator.prediction.simulated import simulate_batch
from simulator.scenario.changes import without_randomness
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.break_even import Duel, NeededTimes, Wins


def find_wins(duels: Sequence[Duel]) -> list[Wins]:
    """The stretches of each duel on which its method is faster; what all of them need next is simulated together."""
    searches = [duel.search() for duel in duels]
    made: dict[int, Wins] = {}
    wanted: dict[int, NeededTimes] = dict.fromkeys(range(len(duels)), NeededTimes())
    while wanted:
        asked = [(duels[number], each) for number, each in wanted.items()]
        _simulate_times(asked)
        _simulate_spreads(asked)
        for number in list(wanted):
            try:
                wanted[number] = next(searches[number])
            except StopIteration as ended:
                made[number] = ended.value
                del wanted[number]
    return [made[number] for number in range(len(duels))]


def _simulate_times(asked: Sequence[tuple[Duel, NeededTimes]]) -> None:
    """Simulate the values that duels want, for both methods; None where the parts of a method do not fit together."""
    new = {
        (id(times), value): (times, value, duel.race.axis.at(scenario, value))
        for duel, wanted in asked
        for scenario, times in ((duel.method, duel.times), (duel.race.against, duel.race.times))
        for value in wanted.values
        if value not in times
    }
    simulated = simulate_batch([without_randomness(scenario) for _, _, scenario in new.values()])
    for (times, value, _), each in zip(new.values(), simulated, strict=True):
        times[value] = None if isinstance(each, InputError) else float(each.figures.times.mean())


def _simulate_spreads(asked: Sequence[tuple[Duel, NeededTimes]]) -> None:
    """The spreads of both methods at the borders that duels want."""
    new = {
        (id(spreads), wanted.border, duel.simulated): (spreads, duel.race.axis.at(scenario, wanted.border))
        for duel, wanted in asked
        if wanted.border is not None
        for scenario, spreads in ((duel.method, duel.spreads), (duel.race.against, duel.race.spreads))
        if (wanted.border, duel.simulated) not in spreads
    }
    found = _spreads(
        [(scenario, simulated) for (_, _, simulated), (_, scenario) in zip(new, new.values(), strict=True)]
    )
    for (_, border, simulated), (spreads, _), spread in zip(new, new.values(), found, strict=True):
        spreads[border, simulated] = spread


def _spreads(asked: Sequence[tuple[Scenario, bool]]) -> list[Spread]:
    """The spreads of predictions, with responses where they are asked for and simulating takes little."""
    made: list[Prediction] = []
    for each in run_batch([scenario for scenario, _ in asked]):
        if isinstance(each, InputError):
            raise each
        made.append(each)
    chosen = [i for i, (_, simulated) in enumerate(asked) if simulated and not made[i].plan.prices.flowed]
    for i, each in zip(chosen, with_responses_of([made[i] for i in chosen]), strict=True):
        made[i] = each
    return [each.spread for each in made]
