"""One word for one thing: no text that people see uses a word of the third column of docs/glossary.md.

Texts are string literals and docstrings of the program, the files that pages are made of, and what is written in
Markdown and notebooks. Left out is what stands in backticks, and strings that are keys (`communication_exposed`).
"""

import ast
import importlib
import re

import nbformat
import pytest
from documentation import documents
from places import ROOT

from simulator.models.timeline import BREAKDOWN, IDLE, TERM_LABELS

GLOSSARY = ROOT / "docs" / "glossary.md"
KEY = re.compile(r"\w+([_.\[\]]+\w*)+")
BACKTICKS = re.compile(r"`[^`\n]+`")


def unused_words():
    """Each word that is not used, as a pattern, with the word that stands for it."""
    for line in GLOSSARY.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for pattern in re.findall(r"`([^`]+)`", cells[2]) if len(cells) == 3 else ():
            yield re.compile(rf"\b{pattern}\b".replace(" ", r"\s+"), re.IGNORECASE), cells[0]


WORDS = list(unused_words())


def strings(path):
    """String literals and docstrings of a Python file, with their lines; keys are left out."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not KEY.fullmatch(node.value):
            yield node.lineno, node.value


def lines(path):
    yield 1, path.read_text(encoding="utf-8")


def cells(path):
    for number, cell in enumerate(nbformat.read(path, as_version=4).cells, 1):
        if cell.cell_type == "markdown":
            yield number, cell.source


def pages():
    names = ("DESIGN.md", "CONTRIBUTING.md", "notebooks/README.md", "examples/plugin_example/README.md")
    return [path for path in (*documents(), *(ROOT / name for name in names)) if path != GLOSSARY]


def hits(paths, texts):
    """Where a word that is not used stands: path, line, the word, and the word to use."""
    for path in paths:
        for start, text in texts(path):
            plain = BACKTICKS.sub("``", text)
            for pattern, word in WORDS:
                for found in pattern.finditer(plain):
                    line = start + plain.count("\n", 0, found.start())
                    yield f"{path.relative_to(ROOT)}:{line}: '{found[0]}', in the glossary '{word}'"


SOURCES = {
    "program": (sorted((ROOT / "simulator").rglob("*.py")), strings),
    "parts of pages": (
        [p for end in ("js", "css", "html", "j2") for p in (ROOT / "simulator").rglob(f"*.{end}")],
        lines,
    ),
    "documentation": (pages(), lines),
    "notebooks": (sorted((ROOT / "notebooks").glob("*.ipynb")), cells),
}


@pytest.mark.parametrize("source", SOURCES)
def test_texts_use_the_words_of_the_glossary(source):
    paths, texts = SOURCES[source]
    assert paths
    assert not (found := list(hits(paths, texts))), "\n".join(["", *found])


def test_words_are_found_across_line_ends_and_not_in_keys(tmp_path):
    page = ROOT / "page.md"
    texts = [
        (1, "All GPUs are\nwaiting for the\nslowest. Then `wires`."),
        (9, "A Speedup; waiting for the slowest worker"),
    ]
    found = [line.partition(", ")[0] for line in hits([page], lambda _: texts)]
    assert found == ["page.md:2: 'waiting for the\nslowest'", "page.md:9: 'Speedup'"]
    assert KEY.fullmatch("breakdown_s.communication_exposed")
    assert not KEY.fullmatch("wires")


def labels():
    """Every literal mapping in the program that gives terms of an iteration a label, with its place."""
    for path in sorted((ROOT / "simulator").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Dict):
                texts = {
                    k.value: v.value for k, v in zip(node.keys, node.values, strict=True) if is_text(k) and is_text(v)
                }
                named = {key.rpartition(".")[2]: label for key, label in texts.items()}
                if named.keys() & {"communication_exposed", "waiting_for_slowest"}:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", named


@pytest.fixture
def links():
    """The extension of the documentation that links words to the glossary."""
    pytest.importorskip("sphinx")
    return importlib.import_module("glossary_links")


def test_words_that_are_linked_stand_in_the_glossary(links):
    assert set(links.LINKED) <= set(links.definitions())
    assert len({links.anchor(word) for word in links.definitions()}) == len(links.definitions())
    assert all(links.definitions().values())


def test_the_first_use_in_a_sentence_is_linked_and_no_other(links):
    from docutils import nodes
    from docutils.core import publish_doctree

    page = (
        "Workers\n=======\n\n``worker`` and *workers*: two Workers.\n\nTopologies of a worker, **density**, coworker.\n"
    )
    tree = publish_doctree(page, settings_overrides={"report_level": 5})
    assert links.link_first_uses(tree, "glossary.html") == ["worker", "topology"]
    found = [(link.astext(), link["refuri"]) for link in tree.findall(nodes.reference)]
    assert found == [("workers", "glossary.html#term-worker"), ("Topologies", "glossary.html#term-topology")]


@pytest.mark.long
def test_every_page_links_words_to_rows_that_exist(links, documentation):
    anchors = set(re.findall(r'id="(term-[\w-]+)"', (documentation / "glossary.html").read_text(encoding="utf-8")))
    assert anchors == {links.anchor(word) for word in links.definitions()}
    used = []
    for path in documentation.rglob("*.html"):
        linked = re.findall(r'href="[./\w]*glossary\.html#(term-[\w-]+)"', path.read_text(encoding="utf-8"))
        assert len(set(linked)) == len(linked), f"{path}: a word is linked once a page"
        used += linked
    assert set(used) == {links.anchor(word) for word in links.LINKED}, "every word is linked on some page"


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@pytest.mark.long
def test_one_table_labels_every_term_of_an_iteration():
    assert not dict(labels()), "a second table labels terms; TERM_LABELS does"
    assert {*BREAKDOWN, *IDLE} == set(TERM_LABELS)
