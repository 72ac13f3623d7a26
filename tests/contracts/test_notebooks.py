"""Notebooks are stored without outputs, in order, and each runs to its answer."""

import re

import nbformat
import pytest
from places import ROOT

FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
IDS = [path.stem for path in NOTEBOOKS]
SECONDS = 300
MOST_CODE = 12
FEWEST_WORDS = 400
"""Of the text of a notebook: what a lecture would say about its question."""


@pytest.fixture(params=NOTEBOOKS, ids=IDS)
def path(request):
    return request.param


def test_there_are_eight_and_the_readme_lists_them_all():
    assert [name[:2] for name in IDS] == [f"{number:02}" for number in range(1, 9)]
    text = (FOLDER / "README.md").read_text()
    assert re.findall(r"\]\((\d\d_\w+)\.ipynb\)", text) == IDS


def test_a_notebook_is_valid_stripped_and_asks_before_it_answers(path):
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    assert all(not cell.metadata for cell in code if cell.id != "solution")
    assert all(re.fullmatch("[a-z-]+", cell.id) for cell in notebook.cells), (
        "ids are words, so that saving a notebook does not change them"
    )
    assert len(code) <= MOST_CODE
    first, answer = notebook.cells[0], notebook.cells[-3]
    assert (first.id, first.cell_type, answer.id) == ("question", "markdown", "answer")
    assert "?*" in first.source and "**Answer.**" in answer.source
    assert any("assert " in cell.source for cell in code)


def test_a_notebook_gives_reasons_and_ends_with_an_exercise_and_its_hidden_answer(path):
    cells = nbformat.read(path, as_version=4).cells
    text = " ".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert len(re.findall(r"\b[A-Za-z]{2,}\b", text)) >= FEWEST_WORDS
    exercise, solution = cells[-2:]
    assert (exercise.id, exercise.cell_type, solution.id) == ("exercise", "markdown", "solution")
    assert exercise.source.startswith("**Exercise.**") and "?" in exercise.source
    assert solution.metadata == {"jupyter": {"source_hidden": True}}, "its code is not seen before it is opened"
    assert "<details><summary>Answer</summary>\n\n" in solution.source, "nor is what it prints"
    assert "assert " in solution.source, "what the answer says is checked"


def test_the_code_of_a_notebook_compiles_and_has_no_absolute_paths(path):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            compile(cell.source, f"{path.name}:{cell.id}", "exec")
        assert not re.search(r"(?<![\w.])(/(home|tmp|root|work|Users|usr)/|[A-Z]:\\)", cell.source), cell.id


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # of the notebook server's own libraries
def test_a_notebook_runs_to_its_answer(path):
    from nbclient import NotebookClient  # here, since it takes long to import

    notebook = nbformat.read(path, as_version=4)
    before = sorted(FOLDER.rglob("*"))
    place = {"metadata": {"path": str(FOLDER)}}
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=place).execute()
    for cell, start in ((notebook.cells[-3], "**Answer.**"), (notebook.cells[-1], "<details>")):
        (answer,) = cell.outputs
        assert answer.data["text/markdown"].strip().startswith(start)
        assert not re.search(r"\bnan\b|\binf\b|None", answer.data["text/markdown"])
    shown = [each for cell in notebook.cells if cell.cell_type == "code" for each in cell.outputs]
    assert any("image/png" in each.get("data", {}) for each in shown), "at least one picture"
    assert not [each for each in shown if each.output_type == "stream" and each.name == "stderr"], "no warnings"
    assert sorted(FOLDER.rglob("*")) == before, "nothing is written next to it"
