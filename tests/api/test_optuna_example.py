"""The Optuna example searches, finds what a finer look confirms, and prints how sure it is."""

import sys

import pytest
from places import ROOT

pytest.importorskip("optuna")


@pytest.fixture(scope="module")
def example():
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import optuna_search

        optuna_search.optuna.logging.set_verbosity(optuna_search.optuna.logging.WARNING)
        yield optuna_search
    finally:
        sys.path.remove(str(ROOT / "examples"))


def test_the_search_ends_near_the_lowest_density(example):
    study = example.search(trials=15)
    assert len(study.trials) == 15
    low, high = example.DENSITIES
    assert low <= study.best_params["density"] <= high
    assert study.best_value < max(trial.value for trial in study.trials)


@pytest.mark.long
def test_the_search_to_a_target_ends_at_a_higher_density(example, capsys, monkeypatch):
    quick, good = (example.search(trials=40, to_target=to_target) for to_target in (False, True))
    assert good.best_params["density"] > 2 * quick.best_params["density"]
    assert good.best_value > 100 * quick.best_value  # whole trainings instead of iterations
    monkeypatch.setattr(sys, "argv", ["optuna_search.py", "--trials", "3"])
    example.main()
    assert "times faster (90 % interval" in capsys.readouterr().out
