"""The generated pages of the reference: each is a function that returns MyST."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from docstrings import markdown, said_of
from markup import code, page, table, target
from nccl_page import nccl
from spec_tables import keys_table, nested, section

from simulator.aliases import NOT_MODELLED
from simulator.answers import AnswerKey, keys_of
from simulator.component import Component, discover
from simulator.errors import EXIT_CODES
from simulator.loading.documents import read_document
from simulator.prediction.result import TIME_INTERVAL, RunResult, VerdictColumns
from simulator.reporting.answers.advised import MethodAdvice
from simulator.reporting.answers.explained import ExplainedIteration
from simulator.reporting.answers.trained import TrainingQuality
from simulator.scenario.catalogue import FAMILIES
from simulator.scenario.scenario import Scenario
from simulator.units import DIMENSIONS

ROOT = Path(__file__).parents[2]
_SAID = {
    "sparsifier": "What is sent of a gradient, and what selecting it costs the GPU.",
    "topology": "How the workers pass gradients on.",
    "scheduler": "When gradients travel, and which travel together.",
    "fabric": "Over which links gradients travel.",
}


def scenario() -> str:
    """Every key of a scenario and of its parts."""
    specs = list(dict.fromkeys([Scenario, *nested(Scenario)]))
    return page(
        "# Keys of a scenario",
        "Every key of a scenario and of its parts. Quantities need a [unit](units.md); a number without one is an "
        "error, except 0 and fractions. `sparsim check SCENARIO` prints all keys with their values. With the JSON "
        "Schemas in `configs/schema`, editors complete and check keys. This is the smallest scenario:",
        "```{literalinclude} ../../../scenarios/ring_check.yaml\n:language: yaml\n```",
        *(section(spec) for spec in specs),
    )


def family(base: type[Component]) -> str:
    """Every kind of one family."""
    kinds = discover(base)
    scenario_page = {*nested(Scenario)}  # what a scenario has is on its own page
    parts = dict.fromkeys(spec for kind in kinds.values() for spec in nested(kind) if spec not in scenario_page)
    return page(
        f"{target(f'family-{base.family}')}\n# {_plural(base).capitalize()}",
        _SAID[base.family],
        table(
            ("kind", "what it is"), ((f"[`{kind}`](#kind-{kind})", markdown(m.summary())) for kind, m in kinds.items())
        ),
        *(_kind(kind, member) for kind, member in kinds.items()),
        *(section(spec) for spec in parts),
    )


def _kind(kind: str, member: type[Component]) -> str:
    where = member.__module__.replace(".", "/")
    return page(
        f"{target(f'kind-{kind}')}\n## {kind}",
        said_of(member)[0],
        keys_table(member),
        f"In `{where}.py`.",
    ).rstrip()


def _plural(base: type[Component]) -> str:
    return f"{base.family[:-1]}ies" if base.family.endswith("y") else f"{base.family}s"


def results() -> str:
    """Keys of the result document, and columns of a sweep."""
    return page(
        "# Keys of a result, columns of a sweep",
        "`sparsim run SCENARIO --json` prints one document, and `--out` stores it as `result.json`. Keys do not "
        "change; new ones may be added. `[]` stands for every entry of a list; the unit 1 means a ratio. In Python "
        "they are attributes of what `run` returns. The JSON Schema is `configs/schema/result.json`.",
        _meanings(keys_of(RunResult), python=True),
        "## Keys of advice",
        "`sparsim advise SCENARIO --json` prints one document.",
        _meanings(keys_of(MethodAdvice), python=True),
        "## Keys of an explanation",
        "`sparsim explain SCENARIO --json` prints one document.",
        _meanings(keys_of(ExplainedIteration), python=True),
        "## Keys of time to quality",
        "`sparsim quality TRAININGS --target TARGET --json` prints one document.",
        _meanings(keys_of(TrainingQuality), python=True),
        "## Columns of a sweep",
        "`results.parquet` and `results.csv` hold one row per point: first the varied keys, quantities in SI with "
        "their unit in the name (`cluster.network.bandwidth_bytes_per_s`), then the columns below, and last `error` "
        "(empty where the point succeeded).",
        _meanings(_columns(), "column"),
        "With `verdicts: true` in the sweep file there are further columns.",
        _meanings(keys_of(VerdictColumns), "column"),
    )


def _meanings(keys: dict[str, AnswerKey], name: str = "key", python: bool = False) -> str:
    """A table of keys or columns with their units and meanings; with `python` also what they are called there."""
    rows = [
        (code(key), *[code(about.python)] * python, about.unit, markdown(about.what)) for key, about in keys.items()
    ]
    return table((name, *["in Python"] * python, "unit", "meaning"), rows)


_LEFT_OUT = (
    "scenario",
    "calibration",
    "intervals_s",
    "notes",
    "memory.not_known",
    "comparison",
    "implementation",
    "question",
)
"""Keys that are no columns, with those below them, as lists are."""


def _columns() -> dict[str, AnswerKey]:
    """The columns of a sweep: the keys of a result without its lists, and what two of these become."""
    made: dict[str, AnswerKey] = {}
    for name, key in keys_of(RunResult).items():
        if name == TIME_INTERVAL:
            made |= {f"{name}.p5": key, f"{name}.p95": key}
        elif "[]" not in name and not name.startswith(_LEFT_OUT):
            made[name] = key
    what = "the curves, laws and terms used, each with its held-out error, as one text"
    return made | {"calibration": AnswerKey("", what)}


def units() -> str:
    """Units that quantities may carry."""
    parts = []
    for dimension, known in DIMENSIONS.items():
        rows = ((code(unit), f"{factor:.12g}") for unit, factor in known.units.items())
        parts += [
            f"## {dimension.capitalize()}",
            f"For example {' or '.join(code(item) for item in known.example.split(' or '))}"
            + (f". Results are in {known.si}." if known.si else ". A number without a unit is a share of 1."),
            table(("unit", f"in {known.si or 'shares of 1'}"), rows),
        ]
    return page(
        "# Units",
        "Quantities may have these units only. The prefixes k, M, G and T are decimal, Ki, Mi, Gi and Ti are binary; "
        "`b` is a bit, `B` a byte. In Python, a number without a unit is in SI.",
        *parts,
    )


def errors() -> str:
    """Exit codes, and what error messages look like."""
    cases = (ROOT / "tests" / "scenario" / "golden_errors.txt").read_text(encoding="utf-8").replace("<tmp>/", "")
    return page(
        "# Errors and exit codes",
        table(("exit code", "meaning"), ((code(key), what) for key, what in EXIT_CODES.items())),
        "All problems of an input are reported at once, on stderr, one line each, with file, line and column and, if a "
        "known word is similar, the word that was probably meant. Nothing is printed on stdout then. Python raises "
        "{class}`~simulator.errors.InputError`, which holds every {class}`~simulator.errors.Problem`.",
        "## Messages for common mistakes",
        "The tests make each of these mistakes and write the messages:",
        f"```text\n{cases.rstrip()}\n```",
    )


def shipped() -> str:
    """The files that come with the package."""
    parts = []
    for folder, what in (
        ("gpus", "GPUs"), ("networks", "Networks"), ("runtimes", "Runtimes"), ("workloads", "Workloads"),
        ("traces", "Gradient traces"),
    ):  # fmt: skip
        pattern = "*/trace.yaml" if folder == "traces" else "*.yaml"
        rows = []
        for path in sorted((ROOT / "configs" / folder).glob(pattern)):
            about = read_document(path).data
            name = path.parent.name if folder == "traces" else path.stem
            rows.append((code(f"{folder}/{name}"), *(markdown(str(about.get(key, ""))) for key in ("name", "source"))))
            if folder == "traces":
                rows[-1] = (rows[-1][0], markdown(str(about.get("model", ""))), rows[-1][2])
        parts += [f"## {what}", table(("name", "what it is", "source"), rows)]
    scenarios = []
    for path in sorted((ROOT / "scenarios").glob("*.yaml")):
        about = read_document(path).data
        scenarios.append((code(path.stem), markdown(str(about.get("question") or about.get("name", "")))))
    return page(
        "# Shipped files",
        "Scenarios to run, and the files that a scenario can name, with the sources of their numbers.",
        "## Scenarios",
        table(("name", "question"), scenarios),
        *parts,
    )


def not_modelled() -> str:
    """Settings of other programs that are refused by name, with what comes closest."""
    rows = (
        (markdown(each.what), ", ".join(code(key) for key in each.keys), markdown(each.closest))
        for each in NOT_MODELLED
    )
    return page(
        "# What is not modelled",
        "sparsim predicts data-parallel training, in which every worker holds the whole model or a shard of it. What "
        "people ask for beyond that is refused by name, wherever such a key stands in a scenario. The last column says "
        "what comes closest.",
        table(("what it is", "keys", "what comes closest"), rows),
    )


def pages() -> dict[str, Callable[[], str]]:
    """Every generated page by its name."""
    families = {_plural(base): (lambda base=base: family(base)) for base in FAMILIES}
    return {
        "scenario": scenario, **families, "nccl": nccl, "results": results, "units": units, "errors": errors,
        "shipped": shipped, "not-modelled": not_modelled,
    }  # fmt: skip
