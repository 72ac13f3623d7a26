"""Training configurations of other tools."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from simulator.errors import InputError
from simulator.schedulers.streaming_diloco import StreamingDiLoCo
from simulator.studies.start.training_files import read_schedule

TITAN = '[fault_tolerance]\nenable = true\nsemi_sync_method = "diloco"\n'
MAXTEXT = "enable_diloco: true\nenable_streaming_diloco: true\nsteps: 1000\n"


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_maxtext_rounds_the_steps_between_fragments(tmp_path: Path) -> None:
    """H = 100 and 37 fragments: one every round(100/37) = 3 steps, so that a tensor waits for 111."""
    path = write(tmp_path, "a.yml", MAXTEXT + "diloco_sync_period: 100\nnum_diloco_fragments: 37\n")
    read = read_schedule(path)
    assert read.scheduler.period.steps == 111
    assert "in 111 inner steps, not in 100" in read.text()
    assert yaml.safe_load(read.text())["scheduler"]["kind"] == "streaming_diloco"


def test_a_delay_in_one_program_hides_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yml", MAXTEXT + "num_diloco_fragments: 4\nnum_communication_overlapping_steps: 2\n")
    read = read_schedule(path)
    assert read.scheduler.period == StreamingDiLoCo(inner_steps=36, fragments=4).period
    assert "hides nothing" in read.text()


def test_torchtitan_starts_an_exchange_before_its_use(tmp_path: Path) -> None:
    """torchft divides sync_steps by the fragments: 20 and 4 give one every 5 steps; defaults are torchtitan's."""
    path = write(tmp_path, "a.toml", TITAN + "sync_steps = 20\nnum_fragments = 4\nfragment_sync_delay = 3\n")
    told = yaml.safe_load(read_schedule(path).text())["scheduler"]
    assert (told["inner_steps"], told["fragments"], told["delay"], told["mixing"]) == (20, 4, 3, 0.0)
    plain = yaml.safe_load(read_schedule(write(tmp_path, "b.toml", TITAN)).text())["scheduler"]
    assert plain == {"kind": "diloco", "inner_steps": 5}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", TITAN + "sync_steps = 10\nnum_fragments = 4\n", "a multiple of the 4 fragments, got 10"),
        ("a.toml", TITAN + "sync_steps = 8\nnum_fragments = 4\nfragment_sync_delay = 2\n", "below 2, H/P, got 2"),
        ("a.toml", TITAN + 'sync_steps = "8"\n', "fault_tolerance.sync_steps: expected a whole number"),
        ("a.toml", "[fault_tolerance\n", "well-formed TOML"),
        ("a.toml", "a = " + "[" * 100_000, "a.toml: expected"),
        ("a.toml", "", "enable = true and semi_sync_method"),
        ("a.yml", "steps: 3\n", "enable_diloco: true"),
        ("a.yml", MAXTEXT, "num_diloco_fragments"),
        ("a.yml", "enable_diloco: !!python/name:os.system\n", "without tags"),
        ("a.yml", MAXTEXT + "diloco_sync_period: 0\n", "a.yml:4:1: diloco_sync_period: expected at least 1"),
        ("a.txt", "", "a .toml file of torchtitan"),
        ("none.yml", None, "a readable file"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(tmp_path: Path, name: str, text: str | None, said: str) -> None:
    path = tmp_path / name if text is None else write(tmp_path, name, text)
    with pytest.raises(InputError) as caught:
        read_schedule(path)
    assert said in str(caught.value)
