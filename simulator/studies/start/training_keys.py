"""Keys of a training configuration while they are read: what each becomes, and which of them nothing was made of."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, NoReturn, TypeVar, cast

from simulator.aliases import describe_not_modelled
from simulator.errors import InputError, Problem, format_value
from simulator.loading.documents import Document
from simulator.models.precision import NUMBER_NAMES

Value = bool | int | float | str
T = TypeVar("T", bool, int, float, str)

MOST = 10**12
"""Largest number that is read."""
_MOST_BITS = 1000
"""Of a whole number: larger ones are no floats."""
_LONGEST = 1000
"""Characters of a name below which no further levels are read: all names together stay short."""
_MOST_NAMED = 200
"""Keys of one kind that a note names."""
FORMATS_OF: dict[str, str] = {**NUMBER_NAMES, "no": "fp32"}
"""Number formats by the words of other programs."""
_OPTIMISERS = dict.fromkeys(("adam", "adamw", "fusedadam", "adam_pax"), "adamw") | {"lamb": "lamb"}
_OFF = ("false", "none", "null", "no", "0", "1", "-1", "", "{}")
_EXPECTED: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


class Token(str):
    """A word of a command line, which may be the value of an option or what follows a flag."""


class Stated:
    """The keys of a file by their full names. Whoever asks for one has read it; `finish` names those that are left.

    `lines`: keys of the scenario with their values, and what of the file they come from. `gpus`: how many GPUs the job
    has, where that is known. `unknown`: keys whose values are only known when the job starts. `compiled`: why kernels
    are fused, where they are.
    """

    def __init__(self, document: Document, gpus: int | None, *, short: bool) -> None:
        self.document, self.gpus = document, gpus
        self.keys = dict(flatten(document.data, short=short))
        self.lines: dict[str, tuple[Value, str]] = {}
        self.notes: list[str] = []
        self.compiled = ""
        self.unknown: dict[str, str] = {}
        self._read: set[str] = set()
        self._names: dict[str, str] = {}
        self._asked = ""

    def rename(self, names: Mapping[str, str]) -> None:
        """Call keys as another program does, whose translation then reads them; texts keep their names."""
        for old in [name for name in names if name in self.keys]:
            self.keys[names[old]] = self.keys.pop(old)
            self._names[names[old]] = old

    def refuse(self, key: str, what: str, hint: str = "") -> NoReturn:
        """Raise InputError for a key in whose place, or beside which, `what` is expected."""
        shown = self._names.get(key, key)
        path = (shown,) if (shown,) in self.document.marks else tuple(shown.split("."))
        got = format_value(self.keys[key]) if key in self.keys else "nothing"
        raise InputError(Problem(f"{self.document.where(path)}: {shown}", what, got, hint))

    def refuse_not_modelled(self, words: Mapping[str, str]) -> None:
        """Raise InputError for keys that turn on what is not modelled, by the words for it."""
        for key, word in words.items():
            said = describe_not_modelled(word)
            if str(self.keys.get(key)).lower() in _OFF:
                self._read.add(key)
            elif said is not None and "not modelled" in said[0]:
                self.refuse(key, "a setting that is modelled", "; ".join(said))

    def find(self, key: str, kind: type[T], least: float = 1) -> T | None:
        """The value of a key; None where the file states none, or one that is only known when the job starts.

        Raises InputError where it has another type, or is a whole number below `least`.
        """
        raw = self.keys.get(key)
        self._read.add(key)
        self._asked = key
        if raw is None:
            return None
        if raw == "auto" or (isinstance(raw, str) and raw.startswith("$") and kind is not bool):
            self.unknown[key] = raw
            return None
        made = _as_kind(kind, raw)
        if made is None:
            self.refuse(key, _EXPECTED[kind], "nothing of the file is run" if isinstance(raw, str) else "")
        low = least if kind is int else 0
        if isinstance(made, int | float) and not isinstance(made, bool) and not low <= made <= MOST:
            self.refuse(key, f"at least {low}" if made < low else f"at most {MOST}")
        return made

    def get(self, key: str, default: T, least: float = 1) -> T:
        """The value of a key, or its default where `find` has none."""
        found = self.find(key, type(default), least)
        return default if found is None else found

    def word(self, key: str, default: str, words: Mapping[str, str]) -> str:
        """What the word of a key is called in a scenario. Raises InputError where it has no name there."""
        word = self.get(key, default).lower()
        if word not in words:
            self.refuse(key, f"one of {', '.join(words)}")
        return words[word]

    def knows(self, *keys: str) -> bool:
        """Whether no value of these keys is only known when the job starts."""
        return self.unknown.keys().isdisjoint(keys)

    def write(self, to: str, value: Value | None, why: str = "") -> None:
        """State a key of the scenario; nothing for none, and for what is only known when the job starts. `why`: what it
        comes from; else the key last asked for."""
        stated = self.keys.get(self._asked) is not None
        key = self._names.get(self._asked, self._asked)
        if value is not None and self.knows(*(why or self._asked).split(", ")):
            self.lines[to] = value, why or (key if stated else f"default of {key}")

    def apply(self, rows: Mapping[str, str], prefix: str = "") -> None:
        """State keys of the scenario, each a whole number as the key of the file beside it, where it is stated."""
        for to, key in rows.items():
            self.write(to, self.find(f"{prefix}{key}", int))

    def write_optimiser(self, key: str, implementation: str = "fused") -> None:
        """State the optimiser, where it is one that is modelled; otherwise the key stays unread."""
        kind = _OPTIMISERS.get(str(self.keys.get(key, "adamw")).lower())
        if kind is not None:
            self.find(key, str)
            self.write("workload.optimiser.kind", kind)
            self.write("workload.optimiser.implementation", implementation)

    def write_cluster(self, nodes: int, gpus_per_node: int, why: str) -> None:
        """State the nodes and their GPUs, which are then known: with as many nodes as the GPUs of the person who asks
        fill, where that is another number."""
        if self.gpus not in (None, nodes * gpus_per_node):
            self.notes.append(f"{self.gpus} GPUs are taken, not {nodes} x {gpus_per_node} as in the file.")
            if self.gpus % gpus_per_node:
                return
            nodes, why = self.gpus // gpus_per_node, f"--gpus; {why}"
        self.gpus = nodes * gpus_per_node
        self.write("cluster.nodes", nodes, why)
        self.write("cluster.gpus_per_node", gpus_per_node, why)

    def count_copies(self, *sizes: int) -> int | None:
        """Copies of a model on so many GPUs each; None where all GPUs are not known. Raises InputError for a rest."""
        if self.gpus is not None and self.gpus % math.prod(sizes):
            what, hint = f"GPUs that {math.prod(sizes)} divides, as copies have so many", "--gpus states them"
            raise InputError(Problem(self.document.path, what, str(self.gpus), hint))
        return None if self.gpus is None else self.gpus // math.prod(sizes)

    def write_batch(
        self, micro: int | None, passes: int | None, total: int | None, copies: int | None, *keys: str
    ) -> None:
        """State the samples of an iteration of one copy, and its micro-batches, of `micro` samples each.

        `total` are the samples of all copies; what is none follows from the rest, unless it stands in one of the `keys`
        and is only known when the job starts. Raises InputError where they contradict each other.
        """
        follows, why = total is not None and copies is not None, ", ".join(key for key in keys if key in self.keys)
        if micro is None or (passes is None and not follows and (total is not None or not self.knows(*keys))):
            self.write("workload.micro_batches", passes, "micro-batches")
            asked = total is not None and self.gpus is None
            more = "it follows from the number of GPUs (--gpus)" if asked else "state it"
            self.notes.append(f"batch_size does not stand in the file: {more}.")
            return
        each = micro * (copies or 1)
        made = passes or (max(1, total // each) if total is not None else 1)
        if total is not None and copies is not None and total != made * each:
            what = f"a global batch of {made * each} samples = {micro} x {made} micro-batches x {copies} copies"
            raise InputError(Problem(self.document.path, what, str(total)))
        why = why or f"default of {keys[0]}"
        self.lines |= {"workload.batch_size": (micro * made, why), "workload.micro_batches": (made, why)}

    def read(self, *beginnings: str) -> None:
        """Count keys that begin so as read: they say nothing beside others that were."""
        self._read |= {key for key in self.keys if key.startswith(beginnings)}

    def assume(self, values: Mapping[str, Value]) -> None:
        """Count keys as read that have the value which is taken for granted."""
        self._read |= {key for key, value in values.items() if self.keys.get(key) == value}

    def finish(self, harmless: str) -> None:
        """Name what nothing was made of, but for keys that `harmless` matches, which change no time."""
        left = [key for key, raw in self.keys.items() if raw not in (None, "", []) and key not in self._read]
        left = [key for key in left if not re.fullmatch(harmless, key)]
        unknown = [f"{self._names.get(key, key)} ({raw})" for key, raw in self.unknown.items()]
        for what, names in {
            "Known only when the job starts, so state it yourself": unknown,
            "Not read, although it may change times": [self._names.get(key, key) for key in left],
        }.items():
            more = [f"and {len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
            said = ", ".join([*names[:_MOST_NAMED], *more])
            self.notes += [f"{what}: {' '.join(said.split())}."] if names else []


def _as_kind(kind: type[T], raw: object) -> T | None:
    """A value in this type; None where it is of another one. A word that follows a flag says that it is set."""
    made = raw
    if kind is bool and isinstance(raw, Token):
        made = raw.lower() != "false"
    elif kind is float and isinstance(raw, int) and not isinstance(raw, bool):
        made = float(raw)
    elif kind is int and isinstance(raw, float) and raw.is_integer():
        made = int(raw)
    elif kind is str and isinstance(raw, int | float):
        made = str(raw).lower()
    fits = isinstance(made, kind) and isinstance(made, bool) == (kind is bool)
    return cast("T | None", made if fits else None)


def flatten(data: object, *, short: bool = False) -> Iterator[tuple[str, object]]:
    """Values by the names of all levels, joined with dots, or by that of the last one (`short`).

    >>> dict(flatten({"a": {"b": 1, "c": [2]}, "d": 3}))
    {'a.b': 1, 'a.c': [2], 'd': 3}
    """
    waiting = [("", data)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict) and len(name) < _LONGEST:
            inner = [(str(key) if short or not name else f"{name}.{key}", each) for key, each in value.items()]
            waiting += inner[::-1]
        elif name:
            yield name, _plain(value)


def _plain(value: object, *, inside: bool = False) -> object:
    """A scalar or a list of scalars, without numbers that Python writes in no text."""
    if isinstance(value, list | tuple) and not inside:
        return [_plain(each, inside=True) for each in value]
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    return value if value is None or isinstance(value, str | int | float) else "..."


class Format(NamedTuple):
    """A program whose configurations are read.

    `marks`: pattern of keys that only its files have. `translate`: states the keys of a scenario. `harmless`: pattern
    of keys that change no time. `short`: keys count by the last part of their names.
    """

    name: str
    marks: str
    translate: Callable[[Stated], None]
    harmless: str
    short: bool = False
