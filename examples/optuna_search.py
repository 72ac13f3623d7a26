"""Search the density and the bucket size with Optuna: pip install optuna

    python examples/optuna_search.py                        # least time of an iteration
    python examples/optuna_search.py --to-target            # least time to a loss, with iterations from small trainings

A lower density is always faster per iteration, so the first search ends at the lowest density that it may take. The
second one multiplies the iteration with how many of them trainings of a small task needed at that density.
"""

import argparse
from typing import Any

import optuna

import simulator
from simulator.studies.quality.iterations import MeasuredIterations, find_iterations, find_place
from simulator.studies.quality.observations import parse_target
from simulator.studies.quality.study import read_study

SCENARIO = "quickstart"
CLUSTER = {"nodes": 2, "gpu": "gpus/rtx2080ti-pytorch2", "network": {"bandwidth": "1 Gbit/s"}}
DENSITIES = (0.001, 0.1)
"""The range that was trained: outside of it nobody knows the iterations."""


def read_iterations(scenario: simulator.Scenario) -> MeasuredIterations:
    """How many iterations a small network needed to a loss of 1, by method and density."""
    study = read_study("mlp-digits", parse_target("loss 1"))
    return find_iterations(study, scenario, find_place(study, scenario, workers=8, batch_size=32))


def settings(density: float, bucket: float) -> dict[str, Any]:
    """The scenario's keys for one trial; `bucket` in MiB."""
    return {
        "cluster": CLUSTER,
        "sparsifier": {"kind": "topk", "density": density},
        "scheduler": {"kind": "bucketed", "bucket_size": f"{bucket} MiB"},
    }


def search(trials: int = 60, to_target: bool = False, seed: int = 0) -> optuna.Study:
    """Try settings; the value of a trial is in seconds."""
    measured = read_iterations(simulator.load(SCENARIO, {"cluster": CLUSTER})) if to_target else None

    def objective(trial: optuna.Trial) -> float:
        density = trial.suggest_float("density", *DENSITIES, log=True)
        bucket = trial.suggest_float("bucket_MiB", 0.5, 64, log=True)
        # Without a comparison, and intervals to first order: ten times as fast.
        result = simulator.run(SCENARIO, intervals="first_order", **settings(density, bucket))
        trial.set_user_attr("iteration_time", result.iteration_time)
        return result.iteration_time * (measured.find(result.scenario).value if measured else 1)

    study = optuna.create_study(direction="minimize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(objective, n_trials=trials)
    return study


def main() -> None:
    """Search, then ask how sure it is that the best setting beats dense."""
    parser = argparse.ArgumentParser(description="Search the density and the bucket size.")
    parser.add_argument("--to-target", action="store_true", help="least time to a loss instead of an iteration")
    parser.add_argument("--trials", type=int, default=60)
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = search(arguments.trials, arguments.to_target)
    best = study.best_params
    print(f"density {best['density']:.3g}, buckets of {best['bucket_MiB']:.3g} MiB: {study.best_value:.4g} s")
    print(simulator.run(SCENARIO, **settings(best["density"], best["bucket_MiB"])).verdict)


if __name__ == "__main__":
    main()
