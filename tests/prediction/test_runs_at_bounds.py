"""At both ends of every number of a scenario a run is finite, or is refused as input."""

import json
import math

import pytest
from number_fields import numbers
from small_inputs import WHOLE

from examples import mapping
from simulator.bounds import BOUNDS
from simulator.component import Spec, discover
from simulator.errors import InputError
from simulator.fabrics.base import Fabric
from simulator.prediction.run import run, with_responses
from simulator.scenario.reading import load
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Topology

FAMILIES = {"sparsifier": Sparsifier, "topology": Topology, "scheduler": Scheduler, "cluster.network": Fabric}
SKIPPED = ("measured", "name", "question")
MEMBERS = [(place, base, kind) for place, base in FAMILIES.items() for kind in discover(base)]


def ends(part, place=""):
    """(dotted key, value) of both ends of every number in a part of a scenario, and in the parts inside it."""
    for name, number, plain in numbers(type(part)):
        key = f"{place}{name}"
        if not plain or key in SKIPPED or number.smallest is None or number.largest is None:
            continue
        for value in {number.smallest, number.largest, *((0,) if number.zero else ())}:
            yield key, value
    for name in type(part).model_fields:
        inner = getattr(part, name)
        if isinstance(inner, Spec) and name not in SKIPPED:
            yield from ends(inner, f"{place}{name}.")


def everything_finite(value):
    if isinstance(value, dict):
        return all(map(everything_finite, value.values()))
    if isinstance(value, list):
        return all(map(everything_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def judge(base, key, value):
    """Nothing; fails where a run at a bound is neither finite nor refused."""
    try:
        document = with_responses(run(load(base, {key: value}))).document
    except InputError:
        return
    assert everything_finite(document), (key, value)
    assert document["iteration_time_s"] >= 0, (key, value)
    json.dumps(document, allow_nan=False)


@pytest.mark.parametrize("key", ["bandwidth", "latency"])
@pytest.mark.parametrize("kind", discover(Fabric))
def test_intervals_of_a_network_go_beyond_the_bounds_of_its_numbers(kind, key):
    """Both ends of an interval are simulated; there no number is refused, also not inside of nodes."""
    cluster = WHOLE["cluster"] | {"network": mapping(Fabric, kind), "nodes": 1, "gpus_per_node": 4}
    for bound in ("smallest", "largest"):
        value = getattr(BOUNDS["time" if key == "latency" else key], bound)
        judge(WHOLE | {"cluster": cluster}, f"cluster.network.{key}", value)


@pytest.mark.long
def test_every_number_outside_of_the_families():
    places = [item for item in ends(load(WHOLE)) if not item[0].startswith(tuple(f"{place}." for place in FAMILIES))]
    assert len(places) > 80
    for key, value in places:
        judge(WHOLE, key, value)


@pytest.mark.long
@pytest.mark.parametrize(("place", "base", "kind"), MEMBERS, ids=[f"{place}-{kind}" for place, _, kind in MEMBERS])
def test_every_number_of_a_member(place, base, kind):
    scenario = {**WHOLE, "cluster": {**WHOLE["cluster"]}}
    member = mapping(base, kind)
    if place == "cluster.network":
        scenario["cluster"]["network"] = member
    else:
        scenario[place] = member
    try:
        made = load(scenario)
    except InputError:
        return
    for key, value in ends(made.cluster.network if place == "cluster.network" else getattr(made, place), f"{place}."):
        judge(scenario, key, value)
