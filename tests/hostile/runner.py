"""Runs the judge, says what it died of: `python runner.py INPUTS SEED FOLDER [READER...]`."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

JUDGE = Path(__file__).parent / "judge.py"
WEIGHTS = {
    **dict.fromkeys(("nccl_log", "osu", "nccl_tuning", "chakra", "tuner", "iterations", "recorded_rows"), 4),
    **dict.fromkeys(("trace_yaml", "trace_layers", "npz", "kineto", "trace_gradients"), 2),
    **dict.fromkeys(("scenario", "journal", "trace_unions"), 0.6),
    **dict.fromkeys(("sparsim_advise", "sparsim_plugin", "sparsim_calibrate_table"), 0.1),
    **dict.fromkeys(("sparsim_run", "sparsim_run_json", "sparsim_explain", "sparsim_timeline"), 3),
}
"""How many inputs a reader gets, relative to 1: more where there is more to read, fewer where each takes long."""
_CHUNK = 1500
_MOST_DEATHS = 20


def shares(names: Sequence[str], inputs: int) -> dict[str, int]:
    """Inputs of each reader, at least `inputs` in all."""
    whole = sum(WEIGHTS.get(name, 1) for name in names)
    return {name: -int(-inputs * WEIGHTS.get(name, 1) // whole) for name in names}


def fuzzed(name: str, seed: int, first: int, count: int, folder: Path) -> list[dict[str, str]]:
    """Findings of one reader; a process that dies is one, and another goes on behind it."""
    folder.mkdir(parents=True, exist_ok=True)
    deaths, number, end = [], first, first + count
    while number < end and len(deaths) < _MOST_DEATHS:
        command = [sys.executable, str(JUDGE), name, str(seed), str(number), str(end - number), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        reached = folder / "number"
        number = int(reached.read_text()) if reached.exists() else first
        if done.returncode != 0:
            how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit code {done.returncode}"
            kept = f"{name}-{seed}-{number}-died"
            if (folder / "current").exists():
                shutil.copyfile(folder / "current", folder / kept)
            deaths.append({"reader": name, "input": kept, "finding": f"died of {how}\n{done.stderr[-2000:]}"})
            if done.returncode == 1:
                break  # the judge itself is broken
            number += 1
    listed = folder / "findings.jsonl"
    lines = listed.read_text().splitlines() if listed.exists() else []
    return [*(json.loads(line) for line in lines), *deaths]


def fuzz_all(names: Sequence[str], inputs: int, seed: int, folder: Path, workers: int = 2) -> list[dict[str, str]]:
    """Findings of all readers, side by side."""
    tasks = [
        (name, seed, first, min(_CHUNK, count - first), folder / f"{name}-{first}")
        for name, count in shares(names, inputs).items()
        for first in range(0, count, _CHUNK)
    ]
    with ThreadPoolExecutor(workers) as pool:
        return [item for found in pool.map(lambda task: fuzzed(*task), tasks) for item in found]


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
    from commands import commands
    from readers import readers

    inputs, seed, place, *chosen = sys.argv[1:]
    made = fuzz_all(chosen or list(readers() | commands()), int(inputs), int(seed), Path(place))
    kinds: dict[tuple[str, str], list[str]] = {}
    for item in made:
        last = [
            line.strip()
            for line in item["finding"].strip().splitlines()
            if "simulator/" in line or line == line.strip()
        ]
        kinds.setdefault((item["reader"], " | ".join(last[-2:])[:300]), []).append(item["input"])
    for (reader, finding), inputs_ in kinds.items():
        print(f"{reader}: {len(inputs_)} x {finding}  [{inputs_[0]}]")
    print(f"{len(made)} findings")
