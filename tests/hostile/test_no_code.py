# ruff: noqa: E501
"""Nothing that is read is ever run: no pickle, eval or the like in the package, beside what is named here."""

import ast

import pytest
from places import ROOT

PACKAGE = ROOT / "simulator"
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "jsonpickle", "joblib", "xmlrpc"}
CALLS = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {"read_pickle", "to_pickle", "read_hdf", "unsafe_load", "full_load", "load_all", "system", "popen"}
PROCESSES = {"studies/processes/executors.py", "studies/processes/dask_executor.py"}
"""Pickle points for processes that they have started themselves, or for a cluster that a person has named."""
IMPORTS = {"__init__.py", "cli/__init__.py", "cli/root.py", "component.py", "record/own_model.py", "training/task.py"}
IMPORTS |= {"studies/processes/dask_executor.py"}
"""Import by name: of a fixed table, of installed plug-ins, and the module that a person names on the command line."""


def files():
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def dangers(tree, name):
    """Lines that could run what was read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            names = {module.split(".")[0], *(alias.name.split(".")[0] for alias in node.names)}
            if names & MODULES and name not in PROCESSES:
                yield f"{name}:{node.lineno}: imports {', '.join(names & MODULES)}"
        if not isinstance(node, ast.Call):
            continue
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        of = owner.id if isinstance(owner, ast.Name) else ""
        keywords = {item.arg: item.value for item in node.keywords}
        harmless = called in ("compile", "eval") and of in ("re", "model", "self", "module", "network")
        if called in CALLS | ATTRIBUTES and not harmless:
            yield f"{name}:{node.lineno}: calls {called}"
        if called == "load" and of in ("np", "numpy"):
            allowed = keywords.get("allow_pickle")
            if not (isinstance(allowed, ast.Constant) and allowed.value is False):
                yield f"{name}:{node.lineno}: numpy.load without allow_pickle=False"
        if called == "load" and of == "yaml":
            yield f"{name}:{node.lineno}: yaml.load rather than safe_load"
        if called == "load" and of == "torch":
            yield f"{name}:{node.lineno}: torch.load unpickles"
        if "shell" in keywords:
            yield f"{name}:{node.lineno}: a shell"
        if called == "import_module" and name not in IMPORTS:
            yield f"{name}:{node.lineno}: imports what a name says"


@pytest.mark.long
def test_nothing_read_is_ever_run():
    assert [item for name in files() for item in dangers(ast.parse((PACKAGE / name).read_text()), name)] == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle", "from pickle import loads", "eval('1')", "exec(x)", "np.load(f)", "np.load(f, allow_pickle=True)",
        "pd.read_pickle(f)", "yaml.load(f)", "yaml.unsafe_load(f)", "os.system('ls')", "run('ls', shell=True)",
        "importlib.import_module(name)", "torch.load(f)",
    ],
)  # fmt: skip
def test_the_check_sees_what_it_is_for(text):
    assert list(dangers(ast.parse(text), "x.py"))
