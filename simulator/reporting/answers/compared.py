"""What differs between two results, with units and meanings: of two runs, or of two sweeps."""

from __future__ import annotations

from typing import Annotated, Any

from simulator.answers import Answer, Interval, in_json, says
from simulator.prediction.result_parts import Fidelity, Word, Worth

Varied = dict[str, Any]
"""A point of a sweep: its varied keys with their values."""


class Side(Answer):
    """What A or B is."""

    place: Annotated[str, says("where it was found")]
    name: Annotated[str, says("its name")]
    digest: Annotated[str | None, says("SHA-256 over all that it depends on")]
    points: Annotated[int | None, says("points of a sweep", "1")] = None


class InputChange(Answer, rename=in_json(where="in")):
    """A key of the scenario that differs, or a part with many of them."""

    key: Annotated[str, says("dotted key of the scenario")]
    a: Annotated[Any, says("its value in A")]
    b: Annotated[Any, says("its value in B")]
    where: Annotated[str, says("which of the two has it: `both`, `a` or `b`")]
    keys: Annotated[int | None, says("keys that differ in an exchanged part", "1")] = None


class InputChanges(Answer):
    """What differs in the inputs: every key, and as it is told, where an exchanged part is one entry."""

    known: Annotated[bool, says("whether the inputs of both are known")]
    unknown: Annotated[list[str], says("places of results whose inputs are not known")]
    changes: list[InputChange]
    told: list[InputChange]


class FigurePair(Answer):
    """A figure of both runs."""

    group: Annotated[str, says("part of the result")]
    key: Annotated[str, says("key of the result")]
    unit: Annotated[str, says("unit of both values")]
    a: Annotated[float | None, says("its value in A")]
    b: Annotated[float | None, says("its value in B")]
    difference: Annotated[float | None, says("B less A")]
    ratio: Annotated[float | None, says("B over A", "1")]


class BasisPair(Answer, rename=in_json(where="in")):
    """A curve, law or term that either prediction rests on."""

    what: Annotated[str, says("its kind")]
    id: Annotated[str, says("which one")]
    where: Annotated[str, says("which of the two rests on it: `both`, `a` or `b`")]
    held_out_mape: Annotated[float | None, says("its held-out error; null where none is stated", "1")]
    in_range_a: Annotated[bool | None, says("whether A asked it within what was measured")]
    in_range_b: Annotated[bool | None, says("whether B asked it within what was measured")]


class FidelityPair(Answer):
    """How messages were priced in each run."""

    a: Fidelity
    b: Fidelity


class WarningSides(Answer):
    """Warnings without their sizes."""

    both: Annotated[list[str], says("those of both runs")]
    only_a: Annotated[list[str], says("those of A only")]
    only_b: Annotated[list[str], says("those of B only")]


class VersionChange(Answer):
    """Software whose version differs."""

    key: Annotated[str, says("the software")]
    a: Annotated[str | None, says("its version in A")]
    b: Annotated[str | None, says("its version in B")]


class RunDifferences(Answer, kw_only=True, rename=in_json(word="verdict")):
    """What differs between two runs."""

    compared: Annotated[str, says("`runs`")]
    a: Side
    b: Side
    answer: Annotated[str, says("the difference, and what it is due to")]
    alike: Annotated[bool, says("whether the times differ by less than 1 %")]
    speed_up: Annotated[float | None, says("A's iteration time over B's", "1")] = None
    word: Annotated[Word | None, says("whether B is faster: `yes`, `no`, `alike` or `undecided`")] = None
    speed_up_interval: Annotated[Interval | None, says("its 90 % interval; what both share cancels", "1")] = None
    probability: Annotated[float | None, says("probability that B is faster", "1")] = None
    value_of_information: list[Worth] | None = None
    intervals_overlap: Annotated[bool, says("whether the 90 % intervals of both times overlap")]
    inputs: InputChanges
    figures: list[FigurePair]
    fidelity: FidelityPair
    calibration: list[BasisPair]
    warnings: WarningSides
    versions: list[VersionChange]


class SingleValued(Answer, rename=in_json(where="in")):
    """A key that varies in one sweep only, where it has one value."""

    key: Annotated[str, says("the varied key")]
    where: Annotated[str, says("which sweep has it: `a` or `b`")]
    value: Annotated[Any, says("its value")]


class ValuesOfOne(Answer):
    """Values of a key that only one of the sweeps has."""

    key: Annotated[str, says("the varied key")]
    only_a: Annotated[list[Any], says("values of A only")]
    only_b: Annotated[list[Any], says("values of B only")]


class PointPair(Answer, kw_only=True, rename=in_json(time=("a", "b", "largest_difference"))):
    """A point of both sweeps."""

    key: Annotated[Varied, says("its varied keys")]
    a: Annotated[float | None, says("its iteration time in A", "s")]
    b: Annotated[float | None, says("its iteration time in B", "s")]
    ratio: Annotated[float | None, says("B over A", "1")]
    digests: Annotated[list[str | None], says("digests in A and in B")]
    same_inputs: Annotated[bool, says("whether the digests are the same")]
    largest_term: Annotated[str | None, says("the term with the largest difference")]
    largest_difference: Annotated[float | None, says("its difference, B less A", "s")]
    warnings_differ: Annotated[bool, says("whether A and B have different warnings")]
    fidelity_differs: Annotated[bool, says("whether messages were priced in different ways")]
    errors: Annotated[list[str | None], says("errors in A and in B")]


class TermChange(Answer, rename=in_json(time=("mean",), least="min_s", most="max_s")):
    """How a term changes over all points, B less A."""

    term: Annotated[str, says("a term of the iteration")]
    mean: Annotated[float, says("mean change", "s")]
    least: Annotated[float, says("smallest change", "s")]
    most: Annotated[float, says("largest change", "s")]


class PointCounts(Answer):
    """Counts of points, and the ratios of B to A."""

    joined: Annotated[int, says("points of both sweeps", "1")]
    came_out: Annotated[int, says("those that succeeded in both", "1")]
    same_inputs: Annotated[int, says("those with the same digest in both", "1")]
    faster: Annotated[int, says("those that are faster in B", "1")]
    slower: Annotated[int, says("those that are slower in B", "1")]
    alike: Annotated[int, says("those within 1 %", "1")]
    warnings_differ: Annotated[int, says("those with different warnings", "1")]
    fidelity_differs: Annotated[int, says("those with a different fidelity", "1")]
    ratio_min: Annotated[float | None, says("smallest ratio of B to A", "1")] = None
    ratio_median: Annotated[float | None, says("median ratio", "1")] = None
    ratio_mean: Annotated[float | None, says("geometric mean of the ratios", "1")] = None
    ratio_max: Annotated[float | None, says("largest ratio", "1")] = None


class SweepDifferences(Answer):
    """What differs between two sweeps, point by point; the largest changes of the iteration time first."""

    compared: Annotated[str, says("`sweeps`")]
    a: Side
    b: Side
    answer: Annotated[str, says("how many points are faster or slower, and by how much")]
    keys: Annotated[list[str], says("keys that vary in both sweeps")]
    single_valued: list[SingleValued]
    values: list[ValuesOfOne]
    summary: PointCounts
    terms: list[TermChange]
    points: list[PointPair]
    failed: Annotated[list[Varied], says("points that failed, each with `error_a` and `error_b`")]
    only_a: Annotated[list[Varied], says("points of A only")]
    only_b: Annotated[list[Varied], says("points of B only")]
    versions: list[VersionChange]
