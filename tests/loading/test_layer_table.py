"""layers.csv: read with shapes and times, and every damaged row named."""

import os

import pytest

from simulator.errors import InputError
from simulator.loading.csv_tables import read_layers
from simulator.models.exchange import Rows
from simulator.models.layers import Layer

HEADER = "name,numel,forward_s,backward_s\n"


def test_layers_are_read_with_their_times(tmp_path):
    path = tmp_path / "layers.csv"
    path.write_bytes(b"\xef\xbb\xbfname,shape,numel,forward_s,backward_s\r\nfc,10x2,20,1e-3,0.002\r\n")
    layer = Layer(name="fc", numel=20, forward=0.001, backward=0.002, shape=(10, 2))
    assert read_layers(path, times_needed=True) == (layer,)


def test_the_hosts_times_may_stand_in_columns_of_their_own(tmp_path):
    path = tmp_path / "layers.csv"
    path.write_text("name,numel,forward_s,backward_s,forward_host_s,backward_host_s\nfc,20,1,2,3,4\n")
    layer = Layer(name="fc", numel=20, forward=1, backward=2, forward_host=3, backward_host=4)
    assert read_layers(path, times_needed=True) == (layer,)


def test_times_may_be_left_out_where_they_are_not_needed(tmp_path):
    path = tmp_path / "layers.csv"
    path.write_text("name,numel\nfc,20\n")
    assert read_layers(path) == (Layer(name="fc", numel=20),)


def test_embeddings_may_state_their_rows(tmp_path):
    path = tmp_path / "layers.csv"
    path.write_text("name,numel,rows,row_width\nwords,2000,70,20\nfc,20,,\n")
    embedding = Layer(name="words", numel=2000, rows=Rows(count=70, width=20))
    assert read_layers(path) == (embedding, Layer(name="fc", numel=20))
    path.write_text(
        f"name,numel,rows,row_width\na,2000,70,\nb,2000,70,30\nc,2000,-1,20\nd,2000,,20\ne,{10**10},1,{10**10}\n"
    )
    with pytest.raises(InputError) as caught:
        read_layers(path)
    places = [problem.where.removeprefix(f"{path}:") for problem in caught.value.problems]
    assert places == ["2: row_width", "3: row_width", "4: rows", "5: rows", "6: row_width"]
    path.write_text("name,numel,rows\na,2000,70\n")
    with pytest.raises(InputError, match="expected both rows and row_width, or neither, got nothing"):
        read_layers(path)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("", ":1: expected the columns name, numel, forward_s, backward_s, got an empty file"),
        ("name,numel\na,1\n", ":1: expected the columns name, numel, forward_s, backward_s, got 'name, numel'"),
        (f"{HEADER}a,1,0,0\nb,1e3,0,0\n", ":3: "),
        (f"{HEADER}\na,1,0,x\n", ":3: "),
        (f"{HEADER}a,1\n", ":2: "),
        (f"{HEADER}a,{'9' * 5000},0,0\n", ":2: "),
        (f"{HEADER}{'a' * 200_000},1,0,0\n", ":2: expected well-formed CSV"),
    ],
    ids=["empty", "columns", "numel", "time", "short", "long number", "long field"],
)
def test_bad_layers_are_refused_with_their_row(tmp_path, content, place):
    path = tmp_path / "layers.csv"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        read_layers(path, times_needed=True)
    assert str(caught.value).startswith(f"{path}{place}")


def test_every_bad_row_is_reported(tmp_path):
    path = tmp_path / "layers.csv"
    path.write_text(f"{HEADER}a,x,0,0\nb,1,0,0\nc,1,y,0\n")
    with pytest.raises(InputError) as caught:
        read_layers(path, times_needed=True)
    places = [problem.where.removeprefix(f"{path}:").partition(":")[0] for problem in caught.value.problems]
    assert places == ["2", "4"]
    with pytest.raises(InputError, match="a readable file"):
        read_layers(tmp_path / "nothing.csv")


def test_a_table_is_read_again_when_its_file_has_changed(tmp_path):
    path = tmp_path / "layers.csv"
    path.write_text("name,numel\na,1\n")
    first = read_layers(path)
    assert read_layers(path) is first
    path.write_text("name,numel\nb,2\n")
    os.utime(path, ns=(1, 1))
    assert [layer.name for layer in read_layers(path)] == ["b"]
    with pytest.raises(InputError, match="forward_s"):
        read_layers(path, times_needed=True)
    path.unlink()
    with pytest.raises(InputError, match="readable"):
        read_layers(path)
