"""Studies of trainings: what they consist of, and that they continue."""

import re
from importlib.util import find_spec

import pytest
from command_line import invoke
from places import ROOT

from simulator.errors import InputError
from simulator.studies.quality import trainings
from simulator.studies.quality.trainings import read_study
from simulator.trainings.runs import read_runs

SHIPPED = sorted((ROOT / "scenarios" / "trainings").glob("*.yaml"))
STUDY = """\
base: {task: mlp-digits, workers: 2, iterations: 6}
vary:
  method: [dense, topk 0.01]
  seed: [0, 1]
"""
needs_torch = [pytest.mark.torch, pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")]


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    return path


def test_every_point_has_options(study):
    options = read_study(study, ["workers=3"])
    expected = [(kind, seed) for kind in ("dense", "topk") for seed in (0, 1)]
    assert [(item.method["kind"], item.seed) for item in options.values()] == expected
    assert list(options) == [0, 1, 2, 3] and {item.workers for item in options.values()} == {3}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_studies_can_be_read(path):
    options = read_study(path)
    assert len({item.model_dump_json() for item in options.values()}) == len(options) > 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("topk 0.01", "topkk 0.01", "study.yaml:3:19: method: expected a kind of sparsifier, got topkk"),
        ("workers: 2", "wrokers: 2", "study.yaml:1:26: wrokers: expected a known key, got 'wrokers'"),
        ("seed: [0, 1]", "seed: [0, -1]", "study.yaml:4:13: seed: expected at least 0, got -1"),
        ("{task: mlp-digits, workers: 2, iterations: 6}", "quickstart", "base: expected a mapping, got 'quickstart'"),
        ("vary:", "verdicts: true\nvary:", "study.yaml:2:1: verdicts: expected a known key, got 'verdicts'"),
    ],
)
def test_mistakes_have_their_place(study, old, new, message):
    study.write_text(STUDY.replace(old, new))
    with pytest.raises(InputError, match=re.escape(message)):
        read_study(study)


def test_what_varies_cannot_be_set(study):
    with pytest.raises(InputError, match="--set seed: expected a key that does not vary"):
        read_study(study, ["seed=3"])


def test_what_went_wrong_is_told_by_folder_and_what_is_there_is_not_trained_again(study, tmp_path, monkeypatch):
    seen = []

    def outcomes(_, parts, processes):
        seen.append((parts, processes))
        yield [(1, "", "")]
        yield [(2, "diverged", ""), (3, "", "the process died")]

    monkeypatch.setattr(trainings, "run_locally", outcomes)
    monkeypatch.setattr(trainings, "finished_run", lambda folder, _: folder.name == "0000")
    told = []
    observe = lambda progress: told.append((progress.evaluated, progress.failed))  # noqa: E731
    result = trainings.train_study(study, tmp_path, processes=8, observe=observe)
    assert (result.trainings, result.reused) == (4, 1) and seen == [([[1], [2], [3]], 3)]
    assert result.failed == {tmp_path / "0002": "diverged", tmp_path / "0003": "the process died"}
    assert told == [(1, 0), (2, 1), (3, 2)]


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestTraining:
    pytestmark = needs_torch

    def test_processes_and_interruptions_change_nothing(self, study, tmp_path, monkeypatch):
        from simulator.studies.quality.trainings import train_study

        # Each training is told of by itself, however fast the machine is.
        monkeypatch.setattr("simulator.studies.processes.executors.BATCH_SECONDS", -1.0)

        def stop(progress):
            if progress.evaluated == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train_study(study, tmp_path / "one", processes=1, observe=stop)
        assert len(read_runs(tmp_path / "one")) == 2
        done = train_study(study, tmp_path / "one", processes=1)
        assert (done.trainings, done.reused, done.failed) == (4, 2, {})
        train_study(study, tmp_path / "two", processes=2)
        assert files(tmp_path / "one") == files(tmp_path / "two")
        assert [run.folder.name for run in read_runs(tmp_path / "two")] == ["0000", "0001", "0002", "0003"]

    def test_a_training_that_fails_does_not_stop_the_others(self, study, tmp_path):
        study.write_text(STUDY.replace("topk 0.01", "gtopk 0.01").replace("workers: 2", "workers: 3"))
        done = invoke("record", "training", study, "--processes", "1", "--out", tmp_path / "out")
        assert done.exit_code == 1 and "4 trainings: 0 reused, 2 failed" in done.stdout
        assert "a number of workers that is a power of two" in done.stderr
