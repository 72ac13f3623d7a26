"""GRACE's compressors on models that no constant was fitted to: the bars, and tables of scenarios."""

import re
import shutil

import numpy as np
import pytest
from places import ROOT
from scipy.stats import kendalltau

from simulator.errors import InputError
from simulator.prediction.run import run
from simulator.scenario.changes import with_value
from simulator.studies.validate.measured_rows import read_measured
from simulator.studies.validate.validation import validate

FOLDER = ROOT / "scenarios" / "validation" / "8xv100-grace-methods"
GROUPS = [("ResNet-20", 4), ("ResNet-20", 8), ("LSTM", 4), ("LSTM", 8)]
NAME = re.compile(r"(?P<model>[^,]+), (?P<method>.+), (?P<workers>\d) V100")


@pytest.fixture(scope="module")
def rows():
    """Seconds measured and predicted by model, method and workers; those of the models that were left out."""
    made = {}
    for scenario in read_measured([FOLDER / "rows.csv"]).samples:
        model, method, workers = NAME.fullmatch(scenario.name).groups()
        if model in {model for model, _ in GROUPS}:
            assert not scenario.measured.used_in_fit
            predicted = run(with_value(scenario, "measured", None)).document["iteration_time_s"]
            made[model, method, int(workers)] = (scenario.measured.iteration_time, predicted)
    return made


def judged(rows, model, workers, constant):
    """Signed errors, Kendall's tau, and the share of methods that are rightly faster or slower than dense.

    With a `constant`, each method of a model is off by as many seconds as its row of 2 workers.
    """

    def pair(method, workers):
        measured, predicted = rows[model, method, workers]
        if constant:
            two = rows[model, method if (model, method, 2) in rows else re.sub(r" [\d.]+ %", " 1 %", method), 2]
            predicted += two[0] - two[1]
        return measured, predicted

    methods = [method for name, method, p in rows if (name, p) == (model, workers) and method != "dense"]
    measured, predicted = np.array([pair(method, workers) for method in methods]).T
    dense = pair("dense", workers)
    return predicted / measured - 1, kendalltau(measured, predicted)[0], (measured < dense[0]) == (predicted < dense[1])


@pytest.mark.parametrize(("constant", "bar"), [(False, 0.20), (True, 0.10)])
def test_methods_on_unseen_models(rows, constant, bar):
    """As shipped, and with one constant for each method of a model."""
    errors = np.concatenate([judged(rows, *group, constant)[0] for group in GROUPS])
    assert len(errors) == 78 and np.mean(np.abs(errors)) <= bar


@pytest.mark.parametrize(("model", "workers"), GROUPS)
def test_ranking_of_methods_on_unseen_models(rows, model, workers):
    """Of LSTM on 8 workers, two medians mix other settings (QSGD, hard threshold); without them it is 0.79 and 0.89."""
    mixed = (model, workers) == ("LSTM", 8)
    assert judged(rows, model, workers, constant=False)[1] >= (0.64 if mixed else 0.80)
    assert judged(rows, model, workers, constant=True)[1] >= (0.72 if mixed else 0.80)


@pytest.mark.parametrize("constant", [False, True])
def test_whether_a_method_pays(rows, constant):
    assert np.concatenate([judged(rows, *group, constant)[2] for group in GROUPS]).mean() >= 0.90


def test_a_table_says_where_it_is_wrong(tmp_path):
    shutil.copy(FOLDER / "template.yaml", tmp_path)
    table = tmp_path / "rows.csv"
    table.write_text(
        "template,name,sparsifier,measured.iteration_time\ntemplate.yaml,a,topq,1 s\nno.yaml,b,dense,1 s\n"
    )
    with pytest.raises(InputError) as caught:
        validate([tmp_path])
    text = str(caught.value)
    assert "rows.csv:2" in text and "topq" in text and "rows.csv:3" in text


def test_rows_replace_keys_of_the_template(tmp_path):
    shutil.copy(FOLDER / "template.yaml", tmp_path)
    table = tmp_path / "rows.csv"
    table.write_text(
        "template,name,cluster.nodes,measured.iteration_time,note\n"
        'template.yaml,one,1,50 ms,"for people: [, not YAML"\ntemplate.yaml,two,,,\n'
    )
    first, second = read_measured([table]).samples
    assert (first.cluster.nodes, first.measured.iteration_time) == (1, 0.05)
    assert (second.cluster.nodes, second.measured.iteration_time) == (2, None)
    assert [row["scenario"] for row in validate([tmp_path]).rows] == ["one"]
