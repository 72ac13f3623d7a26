"""Dotted keys in parsed data and in files that it names, and tables as records and models: made, or refused by name."""

from typing import Annotated

import pytest
from pydantic import Field, create_model

from simulator.errors import InputError
from simulator.loading.csv_tables import TRUTH, read_models, read_records, write_rows
from simulator.loading.replacing import parse_setting, plain_value_at, replace_key

DEEP = ".".join("a" * 40)
Named = create_model("Named", name=(str, ...), count=(Annotated[int, Field(ge=1, le=9)], 5))


def refused(call, *given):
    with pytest.raises(InputError) as caught:
        call(*given)
    return str(caught.value)


def test_a_key_is_replaced_in_a_copy_and_inside_the_file_that_is_named(tmp_path):
    (tmp_path / "mine.yaml").write_text("layers: rows.csv\nsizes: [1, {b: 2}]\n")
    data, layers = {"a": {"b": 1}, "w": "mine", "l": [5, 6]}, str((tmp_path / "rows.csv").resolve())
    assert replace_key(data, "w.sizes.1.b", 3, tmp_path)["w"] == {"layers": layers, "sizes": [1, {"b": 3}]}
    assert replace_key(data, "l.1", 7, None)["l"] == [5, 7] and replace_key(data, "x.y", 1, None)["x"] == {"y": 1}
    assert replace_key(data, "w.c", 1, None)["w"] == {"kind": "mine", "c": 1}  # no file of that name
    assert replace_key({"gpu": "A100"}, "gpu.kind", 1, None)["gpu"].keys() > {
        "memory_bandwidth",
        "kind",
    }  # a short name
    assert replace_key(data, DEEP, 1, None) and data == {"a": {"b": 1}, "w": "mine", "l": [5, 6]}
    for key, words in {
        f"{DEEP}.a": "a dotted key of at most 40 parts, got 41", "a.b.c": "a mapping at a.b, got 1",
        "l.2": "an index below 2, got 2", "l.x.y": "an index below 2, got x",
    }.items():  # fmt: skip
        assert refused(replace_key, data, key, 1, None) == f"--set {key}: expected {words}"
    found = [plain_value_at(data, key) for key in ("a.b", "l.1", "l.2", "l.x", "w.sizes", "")]
    assert found == [1, 6, None, None, None, data] and plain_value_at(data, "w.sizes.1.b", tmp_path) == 2
    assert parse_setting("a=b=1", "x=2") == ("a", "b=1") and parse_setting("a=[1]", "")[1] == [1]
    assert refused(parse_setting, "=1", "x=2") == "--set =1: expected key=value, got '=1': for example x=2"


def test_rows_become_records_and_models_or_every_cell_is_named(tmp_path):
    path = tmp_path / "a.csv"
    assert write_rows(path, ["name", "count"], [("a", ""), ("b", 3)]) == 2
    assert [(row.name, row.count) for row in read_models(path, Named)] == [("a", 5), ("b", 3)]
    columns = {"flag": TRUTH, "name": (str, "a word", str.islower)}
    path.write_text("name,flag\na,true\nb,false\n")
    assert read_records(path, lambda *row: row, columns) == [(True, "a"), (False, "b")]
    for read, how, text, wrong in (
        (read_models, [Named], "name,count\na,0\n,3\n", "2: count: at least 1, got '0' 3: name: this key, got nothing"),
        (read_models, [Named], "count\n", "1: the columns name, got 'count'"),
        (read_models, [Named], "name\n", "at least one row, got none"),
        (read_records, [tuple, columns], "name,flag\nA,\n", "2: flag: true or false, got '' 2: name: a word, got 'A'"),
    ):  # fmt: skip
        path.write_text(text)
        said = refused(read, path, *how).replace(f"{path}:", "").replace("expected ", "")
        assert " ".join(said.split()) == wrong
