"""Strict YAML: what is read, and that whatever is not read is one InputError with a place."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.errors import InputError
from simulator.loading.documents import MAX_BYTES, MAX_DEPTH, parse_document, parse_scalar, read_document
from simulator.scenario.reading import load

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
LADDER = "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} {'[' * 30}*a{i - 1}{']' * 30}\n" for i in range(1, 60))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12), ("-3", -3), ("+4", 4), ("007", 7), ("0o17", 15), ("0x1F", 31), ("1e9", 1e9), ("1.5", 1.5),
        (".5", 0.5), ("5.", 5.0), ("-1E-3", -1e-3), ("true", True), ("False", False), ("null", None), ("~", None),
        ("", None), (".inf", float("inf")), ("-.INF", float("-inf")),
        # YAML 1.1's surprises stay text.
        ("yes", "yes"), ("on", "on"), ("NO", "NO"), ("12:30", "12:30"), ("1_000", "1_000"),
        ("2020-01-01", "2020-01-01"), ("0b11", "0b11"), ("1e", "1e"), ("inf", "inf"), ("nan", "nan"),
        ("10 Gbit/s", "10 Gbit/s"),
    ],
)  # fmt: skip
def test_plain_scalars_follow_yaml_1_2(text, value):
    assert parse_scalar(text) == value
    assert type(parse_scalar(text)) is type(value)
    assert parse_document(f"key: {text}").data == {"key": value}


def test_quoted_scalars_are_text_and_anchors_are_copied():
    assert parse_document("a: '12'\nb: \"true\"\nc: &x {d: 1}\ne: *x\nf: |\n  text\n").data == {
        "a": "12", "b": "true", "c": {"d": 1}, "e": {"d": 1}, "f": "text\n",
    }  # fmt: skip
    assert parse_scalar(".nan") != parse_scalar(".nan")


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", "3:1", "each key once, got 'a' a second time"),
        ("x: {a: 1, a: 2}", "1:11", "each key once, got 'a' a second time"),
        ("1: a\n'1': b\n", "2:1", "each key once, got '1' a second time"),
        ("a: !!str 1", "1:4", "plain YAML without tags"),
        ("a: !!python/object/apply:os.system ['x']", "1:4", "plain YAML without tags"),
        ("!mine {a: 1}", "1:1", "plain YAML without tags"),
        ("a: *b", "1:4", "an anchor that was defined before, got *b"),
        ("a: &a [*a]", "1:8", "an anchor that was defined before, got *a"),
        ("a: 1\n---\nb: 2\n", "2:1", "one document"),
        ("a: [1, 2\n", "2:1", "well-formed YAML"),
        ("a:\n\t- 1", "2:1", "well-formed YAML"),
        ("a: b: c", "1:5", "well-formed YAML"),
        ("[" * 1000 + "]" * 1000, f"1:{MAX_DEPTH + 1}", f"at most {MAX_DEPTH} levels"),
        ("- " * 1000 + "1", f"1:{2 * MAX_DEPTH + 1}", f"at most {MAX_DEPTH} levels"),
        (BOMB, "6:", "at most 200000 values, aliases counted"),
        (LADDER, "3:", f"at most {MAX_DEPTH} levels"),
    ],
)  # fmt: skip
def test_what_is_not_plain_yaml_is_refused_with_its_place(text, place, expected):
    with pytest.raises(InputError) as caught:
        parse_document(text, "run.yaml")
    message = str(caught.value)
    assert message.startswith(f"run.yaml:{place}")
    assert f"expected {expected}" in message


@pytest.mark.parametrize("text", ["a: \0", "a: \x07", "a: \udc80", "a: \ufffe"])
def test_characters_that_yaml_does_not_have_are_refused(text):
    with pytest.raises(InputError, match=r"^<text>(:1:\d+)?: expected (well-formed YAML|UTF-8 text), got "):
        parse_document(text)


@settings(max_examples=2 * settings.default.max_examples)
@given(text=st.text(st.sampled_from("ab01 :-[]{}&*!?|>'\"%@#,\n\t~.<="), max_size=40) | st.text(max_size=30))
def test_any_text_is_a_document_or_an_input_error(text):
    try:
        document = parse_document(text)
    except InputError as error:
        assert error.problems
        assert all("\n" not in str(problem) for problem in error.problems)
    else:
        assert document.where(("a", 0)).startswith("<text>")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a: 1\n" * (MAX_BYTES // 5 + 1), f"at most {MAX_BYTES} bytes"),
        (b"# " + b"x" * (4 * 2**20 - 1), "at most 4194304 bytes"),
        (b"a: \xff\n", "UTF-8 text, got byte 3, which is not"),
        ("a: 1".encode("utf-16"), "UTF-8 text"),
    ],
    ids=["large", "comment", "latin", "utf-16"],
)
def test_files_that_are_too_large_or_not_utf8_are_refused(tmp_path, content, expected):
    path = tmp_path / "run.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_document(path)
    assert str(caught.value).startswith(f"{path}: expected {expected}")


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbfa: 1\nb: two\n", b"a: 1\r\nb: two\r\n", b"a: 1\nb: two", b"---\na: 1\nb: two\n...\n"]
)
def test_byte_order_mark_and_line_ends_do_not_matter(tmp_path, content):
    path = tmp_path / "run.yaml"
    path.write_bytes(content)
    document = read_document(path)
    assert document.data == {"a": 1, "b": "two"}
    assert document.where(("b",)) == f"{path}:{content.splitlines().index(b'b: two') + 1}:1"


def test_a_part_is_placed_at_its_key_or_else_at_its_parent():
    document = parse_document("a:\n  b: [1, {c: 2}]\n", "run.yaml")
    assert document.where(("a", "b", 1, "c")) == "run.yaml:2:11"
    assert document.where(("a", "b", 1, "d", "e")) == "run.yaml:2:10"
    assert document.where(("z",)) == "run.yaml:1:1"
    changed = document.with_changes(["a.b.0", "a.d", "e.f"], "--set")
    places = [changed.where(path) for path in (("a", "b"), ("a", "b", 0), ("a", "d", "g"), ("e",), ("z",))]
    assert places == ["run.yaml:2:3", "--set", "--set", "--set", "run.yaml:1:1"]
    assert (changed.describe_place(("a", "d")), changed.describe_place(("a", "b"))) == (
        "--set a.d",
        "run.yaml:2:3: a.b",
    )


@pytest.mark.parametrize("name", ["nowhere", "a" * 5000, "a\0b", "", ".", "/", "/dev/zero"])
def test_a_name_without_a_file_is_an_input_error(name):
    with pytest.raises(
        InputError, match=r"^no scenario named .* in the current folder, in \./scenarios or in the package: "
    ):
        load(name)


def test_a_document_that_is_read_again_is_one_of_its_own(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: [1, 2]\n")
    first = read_document(path)
    first.data["a"].append(3)
    again = read_document(path)
    assert (again.data, again.where(("a",))) == ({"a": [1, 2]}, f"{path}:1:1")
    path.write_text("a: [1, 2\n")
    for _ in range(2):
        with pytest.raises(InputError, match="well-formed YAML"):
            read_document(path)
    path.write_text("a: [4]\n")
    assert read_document(path).data == {"a": [4]}
