"""How the program is cut: the core and its two wings hold every room, no import goes in a circle."""

import ast
import tomllib
from collections import defaultdict
from functools import cache

from places import ROOT

PACKAGE = ROOT / "simulator"
OUTSIDE = {"cli", "api", "__main__"}
"""What people call, above core and wings."""


def contract(name):
    """A contract of import-linter by its name."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return next(each for each in settings["tool"]["importlinter"]["contracts"] if each["name"] == name)


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def trees():
    """The syntax of every module by its name."""
    return {name_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def imported(tree):
    """The modules of the program that a module imports, at its head and inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in trees())
        elif isinstance(node, ast.ImportFrom):
            inner = (f"{node.module}.{each.name}" for each in node.names)
            yield from (name if name in trees() else node.module for name in inner if node.module in trees())


def circles(graph):
    """The groups of nodes that reach each other (Tarjan, SIAM J. Comput. 1, 1972)."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in graph[node]:
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            place = stack.index(node)
            found.append(stack[place:])
            del stack[place:]

    for node in graph:
        if node not in number:
            visit(node)
    return [sorted(group) for group in found if len(group) > 1 or group[0] in graph[group[0]]]


def test_no_import_goes_in_a_circle_not_even_inside_functions_or_for_types():
    graph = {name: set(imported(tree)) for name, tree in trees().items()}
    graph["simulator"] = set()  # its names are imported when they are asked for
    assert sum(map(len, graph.values())) > 3000
    assert circles(graph) == []


def test_circles_are_seen():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"e"}}) == [["a", "b", "c"], ["e"]]


def test_every_room_is_in_the_core_or_in_one_wing():
    core = contract("the core imports neither wing")["source_modules"]
    ask = contract("ask imports nothing of lab")
    lab = contract("lab imports of ask what others may use")
    assert (ask["source_modules"], ask["forbidden_modules"]) == (lab["forbidden_modules"], lab["source_modules"])
    rooms = [*core, *ask["source_modules"], *lab["source_modules"]]
    assert len(set(rooms)) == len(rooms)
    homes = defaultdict(list)
    for name in trees():
        if name.split(".")[1:2] not in ([each] for each in OUTSIDE):
            homes[name] = [room for room in rooms if name == room or name.startswith(f"{room}.")]
    parents = {"simulator", "simulator.studies", "simulator.traces"}
    assert {name for name, found in homes.items() if len(found) != 1} == parents


def test_no_class_name_occurs_twice():
    homes = defaultdict(list)
    for name, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(name)
    assert len(homes) > 500
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def documentation(tree):
    """Docstrings, and the texts that stand below a constant."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value.strip()


def test_every_docstring_stands_by_itself():
    texts = [(name, text) for name, tree in trees().items() for text in documentation(tree)]
    assert len(texts) > 3000
    assert [(name, text) for name, text in texts if text.startswith(("The same", "As "))] == []
