"""Judges a reader or command on inputs, in a process of its own: `python judge.py READER SEED FIRST COUNT FOLDER`.

Each input is written to FOLDER/current before it is read, so that whoever finds the process dead knows on what.
"""

import contextlib
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from random import Random

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

from commands import commands  # noqa: E402
from expected import case_readers  # noqa: E402
from mutations import mutated  # noqa: E402
from readers import Reader, prepared, readers  # noqa: E402

from simulator.errors import InputError, SparsimError  # noqa: E402

CPU_SECONDS, SECONDS, BYTES = 10, 300, 2 * 2**30
"""What one input may take: of CPU, of time even if it only waits, and of memory."""
MAX_MESSAGE = 60_000
_FORM = re.compile(r", got |(^|: )no [\w -]+ named ")
"""Every message says what was expected and what came instead, or which name means nothing."""
_POOL = 300


def judged(reader: Reader, path: Path) -> tuple[str, str]:
    """`(outcome, finding)` of one input: what came of it, without its figures, and what is wrong with that, if any."""
    # Neither is caught: they also end what does not come back to Python.
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    signal.alarm(SECONDS)
    try:
        found = reader.read(path)
        text = "\n".join(str(problem) for problem in getattr(found, "problems", ()))
        outcome = "valid " + text
    except (InputError, SparsimError) as error:
        outcome = text = str(error)
        if isinstance(error, InputError):
            odd = [item for item in error.problems if "\n" in str(item) or not _FORM.search(str(item))]
            if odd:
                return outcome, f"a message in another form: {str(odd[0])[:300]!r}"
    except BaseException:
        _stop_timers()
        return "traceback", traceback.format_exc()
    finally:
        _stop_timers()
    if len(text) > MAX_MESSAGE:
        return outcome[:100], f"a message of {len(text)} characters: {text[:200]!r}"
    with contextlib.suppress(UnicodeEncodeError):
        text.encode()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return outcome, f"{peak / 2**30:.1f} GiB" if peak > BYTES else ""
    return outcome, "a message that can't be printed"


def _stop_timers() -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.alarm(0)


def fuzz(name: str, seed: int, first: int, count: int, folder: Path) -> None:
    """Read `count` damaged inputs. What leads to an outcome not seen before is damaged further."""
    reader = (readers() | commands() | case_readers())[name]
    pool, seen, current = list(reader.seeds), set[str](), folder / "current"
    with tempfile.TemporaryDirectory(dir=folder) as inner:
        path = prepared(reader, Path(inner))
        for data in reader.seeds:
            path.write_bytes(data)
            outcome, finding = judged(reader, path)
            _report(folder, name, data, finding)
        for number in range(first, first + count):
            random = Random(f"{name} {seed} {number}")
            data = reader.mend(mutated(random.choice(pool), random, random.choice(pool)))
            current.write_bytes(data)
            (folder / "number").write_text(str(number))
            path.write_bytes(data)
            outcome, finding = judged(reader, path)
            _report(folder, name, data, finding)
            shape = re.sub(r"'.*?'|\".*?\"|\d+", "", outcome.replace(inner, ""))[:400]
            if shape not in seen and len(data) < 2**16:
                seen.add(shape)
                pool.append(data)
                if len(pool) > _POOL:
                    del pool[len(reader.seeds)]
            if finding.endswith("GiB"):
                sys.exit(3)  # the peak of a process never falls
            shutil.rmtree(path.parent / "out", ignore_errors=True)
    current.unlink(missing_ok=True)
    (folder / "number").write_text(str(first + count))


def _report(folder: Path, name: str, data: bytes, finding: str) -> None:
    if finding:
        digest = hashlib.sha256(data).hexdigest()[:10]
        (folder / f"{name}-{digest}").write_bytes(data)
        with (folder / "findings.jsonl").open("a") as file:
            file.write(json.dumps({"reader": name, "input": f"{name}-{digest}", "finding": finding}) + "\n")


def corpus(root: Path) -> None:
    """Read every file of the corpus; findings as JSON lines on stdout."""
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        reader = (readers() | commands())[folder.name]
        for file in sorted(folder.iterdir()):
            with tempfile.TemporaryDirectory() as inner:
                path = prepared(reader, Path(inner))
                shutil.copyfile(file, path)
                print(json.dumps({"input": f"{folder.name}/{file.name}", "outcome": None}), flush=True)
                outcome, finding = judged(reader, path)
                text = outcome.replace(inner, "<tmp>")
                print(
                    json.dumps({"input": f"{folder.name}/{file.name}", "outcome": text, "finding": finding}), flush=True
                )


if __name__ == "__main__":
    warnings.simplefilter("error")
    resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ["SPARSIM_FUZZING"] = "1"
    if sys.argv[1] == "corpus":
        corpus(Path(sys.argv[2]))
    else:
        name, seed, first, count, place = sys.argv[1:]
        fuzz(name, int(seed), int(first), int(count), Path(place))
