"""Real TCP between network namespaces against predictions that know link rate, bucket and ping-pong alone.

Opt-in (`pytest -m groundtruth tests/groundtruth`), as root on Linux; about two minutes on a quiet machine.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import yaml

from groundtruth.measure import BURST, collectives, training
from groundtruth.namespaces import Hosts, run
from groundtruth.shaping import Shaping, unavailable
from simulator.studies.validate.collective_table import CollectiveRow, predict
from simulator.studies.validate.validation import validate

RATE = 100e6
BARS = {2**18: 0.05, 2**20: 0.02, 2**22: 0.02}

pytestmark = pytest.mark.groundtruth


@pytest.fixture(autouse=True, scope="module")
def shaped_links():
    reason = unavailable()
    if reason:
        pytest.skip(reason)


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_collectives_are_predicted(workers):
    found = {}
    for cells in collectives(RATE, workers):
        row = CollectiveRow.model_validate({name: cells[name] for name in CollectiveRow.model_fields if name in cells})
        found[row.collective, row.message_bytes] = predict(row)[0].seconds[0] / row.median_s - 1
    assert {size for _, size in found} >= {2**18, 2**20}
    assert not {key: error for key, error in found.items() if abs(error) > BARS[key[1]]}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Rows of dense and Top-k training by method and rate."""
    folder, rows = tmp_path_factory.mktemp("training"), {}
    for rate in (RATE, 500e6, 0.0):
        for name, text in training(rate, 15):
            (folder / f"{name}.yaml").write_text(text)
            rows[name.split("-")[0], rate] = yaml.safe_load(text)["name"]
    known = {row["scenario"]: row for row in validate([folder]).rows}
    return {key: known[name] for key, name in rows.items()}


@pytest.mark.parametrize(("method", "bar"), [("dense", 0.04), ("topk", 0.12)])
@pytest.mark.parametrize("rate", [RATE, 500e6])
def test_training_is_predicted(trained, method, bar, rate):
    assert abs(trained[method, rate]["signed_error"]) <= bar


@pytest.mark.parametrize("kind", ["measured", "predicted"])
def test_topk_wins_on_slow_links_and_loses_without_a_limit(trained, kind):
    assert trained["topk", RATE][kind] < trained["dense", RATE][kind]
    assert trained["topk", 500e6][kind] < trained["dense", 500e6][kind]
    assert trained["topk", 0.0][kind] > trained["dense", 0.0][kind]


def test_nothing_is_left_behind_even_by_a_process_that_was_killed():
    def ours():
        return {line.split()[0] for line in run("ip", "netns", "list").splitlines() if line.startswith("sgt")}

    before = ours()
    code = "from groundtruth.namespaces import Hosts; import os; Hosts(2, None).__enter__(); os._exit(1)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert len(ours() - before) == 3
    with Hosts(2, Shaping(RATE, BURST[RATE])) as hosts:
        assert ours() - before == {*hosts.names, hosts.switch}
        with pytest.raises(RuntimeError, match="ip -n nowhere"):
            run("ip", "-n", "nowhere", "link")
    assert ours() <= before
