"""Tries random scenarios in a process of its own: `python scenario_trial.py SEED FIRST COUNT [digests]`.

Writes one JSON line for each valid scenario: its number, the digest of its result and what did not hold. A scenario
that takes more than 10 s of CPU ends the process, and `tried` goes on behind it. `python scenario_trial.py smallest
SEED NUMBER` prints the smallest scenario in which the same invariant fails.
"""

import copy
import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from random import Random

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

from invariants import ALWAYS, IN_TURN, digest, predicted, validated  # noqa: E402
from random_scenarios import crowded, scenario  # noqa: E402

from simulator.engine.rounds.compiled_loop import SWITCH  # noqa: E402

SECONDS = 10
"""CPU time that one scenario may take, with all that it is compared with."""


def judged(mapping, number=None):
    """`(digest, findings)` of a scenario; none where it is refused. Without a number all comparisons are made."""
    spec = validated(mapping)
    result = None if spec is None else predicted(spec, intervals=True)
    if result is None:
        return None
    comparisons = IN_TURN if number is None else (IN_TURN[0], IN_TURN[1 + number % (len(IN_TURN) - 1)])
    found = [f"{check.__name__}: {item}" for check in (*ALWAYS, *comparisons) for item in check(spec, result)]
    return digest(result), found


def made_of(seed, number):
    """The scenario of this number; those of the seed `crowded` have all that meets on links."""
    return (crowded if seed == "crowded" else scenario)(Random(f"{seed} {number}"))


def main(seed, first, count, only_digests=False):
    """Try `count` scenarios; see above."""
    for number in range(first, first + count):
        print(json.dumps({"number": number}), flush=True)
        mapping = made_of(seed, number)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # not caught: it also ends what does not come back to Python
        try:
            if only_digests:
                spec = validated(mapping)
                result = None if spec is None else predicted(spec, intervals=True)
                made = None if result is None else (digest(result), [])
            else:
                made = judged(mapping, number)
        except Exception:
            made = "", [traceback.format_exc()[-1500:]]
        signal.setitimer(signal.ITIMER_PROF, 0)
        if made is not None:
            print(json.dumps({"number": number, "digest": made[0], "findings": made[1]}), flush=True)


def tried(seed, first, count, *how, hash_seed=0, compiled=True):
    """`(digests, findings)` by number, from processes with this hash seed; where one dies, the next goes on.

    `compiled`: whether the event loop of the network is the compiled one, where there is one.
    """
    digests, findings, number, end = {}, {}, first, first + count
    while number < end:
        command = [sys.executable, str(Path(__file__)), str(seed), str(number), str(end - number), *how]
        environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), SWITCH: str(int(compiled))}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        for line in (line for line in lines if "digest" in line):
            digests[line["number"]] = line["digest"]
            if line["findings"]:
                findings[line["number"]] = line["findings"]
        if done.returncode:
            number = lines[-1]["number"] if lines else end
            findings[number] = [f"died with {done.returncode}: {done.stderr[-1500:]}"]
            number += 1
        else:
            number = end
    return digests, findings


def smallest(mapping, fails):
    """What is left of a scenario when everything is left out without which it still fails."""
    shrunk = True
    while shrunk:
        shrunk = False
        for path in list(_paths(mapping)):
            smaller = copy.deepcopy(mapping)
            inner = smaller
            try:
                for key in path[:-1]:
                    inner = inner[key]
                del inner[path[-1]]
            except (KeyError, IndexError):
                continue
            if fails(smaller):
                mapping, shrunk = smaller, True
    return mapping


def _paths(data, above=()):
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, item in items:
        yield (*above, key)
        yield from _paths(item, (*above, key))


def failures(mapping):
    """The names of the checks that fail, or of the exception."""
    try:
        made = judged(mapping)
    except Exception as error:
        return {type(error).__name__}
    return {item.partition(":")[0] for item in made[1]} if made else set()


if __name__ == "__main__":
    if sys.argv[1] == "smallest":
        whole = made_of(sys.argv[2], int(sys.argv[3]))
        wanted = failures(whole)
        left = smallest(whole, lambda mapping: bool(failures(mapping) & wanted))
        print(json.dumps(left, indent=1), judged(left))
    else:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] == ["digests"])
