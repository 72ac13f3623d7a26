"""No result rests on a BLAS product, which differs in its last digit between kinds of processors."""

import ast

import pytest
from places import ROOT

WITH_PYTORCH = ("simulator/record/", "simulator/training/")
SPARSE = ("simulator/calibration/fits/families.py",)
"""Products of sparse matrices, which SciPy takes without BLAS."""
NAMES = {
    *("corrcoef", "cov", "curve_fit", "dot", "einsum", "eigh", "eigvalsh", "hermegauss", "inner", "least_squares"),
    *("leggauss", "linalg", "lstsq", "matmul", "matvec", "minimize", "nnls", "polyfit", "splu", "svd", "tensordot"),
    *("vdot", "vecdot", "vecmat"),
}
OWN = "simulator.models.linear_algebra"


def products(text):
    """Lines of a module that hand a product to BLAS, or to a solver that does."""
    tree = ast.parse(text)
    own = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == OWN
        for alias in node.names
    }
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
                yield node.lineno
            case ast.Attribute(attr=name) if name in NAMES:
                yield node.lineno
            case ast.ImportFrom(module=module) if module != OWN:
                names = {*(alias.name for alias in node.names), *(module or "").split(".")}
                if names & NAMES - own or "linalg" in names:
                    yield node.lineno


@pytest.mark.parametrize(
    "line",
    [
        "a @ b",
        "a @= b",
        "np.dot(a, b)",
        "a.dot(b)",
        "np.linalg.norm(a)",
        "from scipy.sparse.linalg import splu",
        "from scipy.optimize import least_squares",
        "from numpy.polynomial.hermite_e import hermegauss",
    ],
)
def test_a_product_is_found(line):
    assert list(products(line))


def test_nothing_is_found_where_nothing_is():
    assert not list(products(f"from {OWN} import least_squares\nx = least_squares(f, a)[0] * np.add.reduce(a * b)"))


@pytest.mark.long
def test_no_room_uses_a_product_whose_last_digit_the_processor_decides():
    paths = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "simulator").rglob("*.py")}
    found = [
        f"{name}:{line}"
        for name, path in sorted(paths.items())
        if not name.startswith(WITH_PYTORCH) and name not in SPARSE
        for line in products(path.read_text(encoding="utf-8"))
    ]
    assert len(paths) > 400
    assert not found, "use simulator.models.linear_algebra"
