"""A sweep that is small and has every kind of row, and what is on disk after it."""

from small_inputs import BASE, VARY

from simulator.studies.sweep.sweep import run_sweep

POINTS, DISTINCT = 240, 180


def written(folder, text=BASE + VARY, name="sweep.yaml"):
    path = folder / name
    path.write_text(text)
    return path


def swept(path, out, workers=1, **options):
    return run_sweep(path, out, workers=workers, **options)


def results(out, part=""):
    return (out / f"results{part}.parquet").read_bytes(), (out / f"results{part}.csv").read_bytes()
