"""Small faults: every place in a file where one operator, number, condition or statement can be changed."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
"""The boundary moved, and the whole turned round."""
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_PAIRS = (
    ("min", "max"),
    ("any", "all"),
    ("minimum", "maximum"),
    ("argmin", "argmax"),
    ("floor", "ceil"),
    ("first", "last"),
    ("src", "dst"),
)
NAMED = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
"""Names of calls and attributes that are each other's opposite."""

COMMUTATIVE = ("min", "max", "minimum", "maximum", "hypot")
"""Calls whose arguments may stand in any order."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file: the bytes from `start` to `end` become `after`.

    `lines` are where a test must pass to see it; empty where it is worked out on import. `key` stays the same while the
    file changes elsewhere.
    """

    key: str
    path: str
    line: int
    start: int
    end: int
    operator: str
    before: str
    after: str
    lines: tuple[int, ...]

    def applied(self, source: bytes) -> bytes:
        """The file with the change made."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def row(self) -> dict[str, Any]:
        """The mutant as JSON."""
        return asdict(self)


def mutants(path: str, source: bytes) -> list[Mutant]:
    """All mutants of a file, in order.

    Left alone: annotations (but for calls in them, which pydantic reads), decorators, docstrings, f-strings, patterns
    of `match`, imports for type checkers, what a `raise` says (the raise itself is removed), and `strict` of `zip`, a
    check that always passes.
    """
    made, seen = [], Counter[str]()
    for item in _Finder(path, source).found():
        text = f"{path} {item.operator}: {item.before} -> {item.after}"
        seen[text] += 1
        made.append(replace(item, key=hashlib.sha256(f"{text} {seen[text]}".encode()).hexdigest()[:16]))
    return made


class _Finder:
    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source = path, source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def found(self) -> Iterator[Mutant]:
        yield from self._below(ast.parse(self.source), None, False)

    def _below(self, node: ast.AST, statement: ast.stmt | None, inside: bool) -> Iterator[Mutant]:
        """Mutants of the nodes under `node`, which stand in `statement` and, or not, inside a function."""
        for name, value in ast.iter_fields(node):
            if name in ("decorator_list", "type_params") or (isinstance(node, ast.match_case) and name == "pattern"):
                continue
            children = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, ast.AST)]
            for child in children:
                if name in ("annotation", "returns"):
                    for call in _calls_in(child) if isinstance(node, ast.AnnAssign) and not inside else ():
                        yield from self._of(call, statement, inside, condition=False)
                    continue
                body = inside or (isinstance(node, ast.FunctionDef | ast.Lambda) and name == "body")
                if isinstance(node, ast.keyword) and node.arg == "strict":
                    continue
                within = child if isinstance(child, ast.stmt) else statement
                yield from self._of(child, within, body, condition=name in ("test", "ifs"))

    def _of(self, node: ast.AST, statement: ast.stmt | None, inside: bool, condition: bool) -> Iterator[Mutant]:
        if isinstance(node, ast.JoinedStr) or _only_for_people(node):
            return
        turned = [("condition turned", f"(not ({ast.unparse(node)}))")] if condition and not _turned(node) else []
        for operator, after in [*turned, *_changes(node)]:
            at = getattr(node, "lineno", 0)
            first = statement.lineno if statement is not None else at
            start, end = self._place(node)
            yield Mutant(
                key="",
                path=self.path,
                line=at,
                start=start,
                end=end,
                operator=operator,
                before=" ".join(self.source[start:end].decode().split()),
                after=after,
                lines=tuple(sorted({first, at})) if inside else (),
            )
        if not isinstance(node, ast.Raise):
            yield from self._below(node, statement, inside)

    def _place(self, node: Any) -> tuple[int, int]:
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )


def _only_for_people(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def _changes(node: ast.AST) -> Iterator[tuple[str, str]]:
    """What a node may become, as source, each with the name of the operator."""
    match node:
        case ast.Compare(left, ops, comparators):
            for place, op in enumerate(ops):
                for other in COMPARED[type(op)]:
                    yield "comparison", _text(ast.Compare(left, _with(ops, place, other()), comparators))
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield "sign or not dropped", _text(operand)
        case ast.BoolOp(op, values):
            yield "and, or", _text(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))
        case ast.Constant(value) if isinstance(value, bool):
            yield "constant", str(not value)
        case ast.Constant(value) if isinstance(value, int | float):
            yield "constant", f"({value * 2 if abs(value) > 1e6 else value + 1!r})"  # one more in 20e9 is rounding
        case ast.Call():
            yield from _calls(node)
        case ast.Attribute(value, attr) if attr in NAMED:
            yield "opposite name", _text(ast.Attribute(value, NAMED[attr], ast.Load()))
    if isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        yield "arithmetic", _text(ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right))
    if isinstance(node, ast.stmt):
        yield from _statements(node)


def _statements(node: ast.stmt) -> Iterator[tuple[str, str]]:
    match node:
        case ast.AugAssign(target, op, value) if type(op) in COMPUTED:
            yield "arithmetic", ast.unparse(ast.AugAssign(target, COMPUTED[type(op)](), value))
            yield "statement removed", "pass"
        case ast.Expr(ast.Call()) | ast.Raise() | ast.Continue() | ast.Break() | ast.AugAssign():
            yield "statement removed", "pass"
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield "statement removed", "pass"


def _calls(node: ast.Call) -> Iterator[tuple[str, str]]:
    if isinstance(node.func, ast.Name) and node.func.id in NAMED:
        yield "opposite name", _text(ast.Call(ast.Name(NAMED[node.func.id], ast.Load()), node.args, node.keywords))
    two = len(node.args) > 1 and not any(isinstance(item, ast.Starred) for item in node.args[:2])
    two = two and ast.unparse(node.args[0]) != ast.unparse(node.args[1])
    if two and ast.unparse(node.func).rpartition(".")[2] not in COMMUTATIVE:
        swapped = [node.args[1], node.args[0], *node.args[2:]]
        yield "arguments swapped", _text(ast.Call(node.func, swapped, node.keywords))
    for place, keyword in enumerate(node.keywords):
        if keyword.arg not in (None, "strict"):
            rest = [*node.keywords[:place], *node.keywords[place + 1 :]]
            yield "argument left out", _text(ast.Call(node.func, node.args, rest))


def _calls_in(annotation: ast.AST) -> list[ast.AST]:
    """The outermost calls of an annotation, such as pydantic's `Field(ge=0)`."""
    if isinstance(annotation, ast.Call):
        return [annotation]
    return [call for child in ast.iter_child_nodes(annotation) for call in _calls_in(child)]


def _turned(test: ast.AST) -> bool:
    """Whether another operator turns this condition round."""
    return isinstance(test, ast.Compare) or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))


def _with(items: list[ast.cmpop], place: int, item: ast.cmpop) -> list[ast.cmpop]:
    return [*items[:place], item, *items[place + 1 :]]


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"
