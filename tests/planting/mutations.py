"""Finds the single defects that can be planted in the functions of a module. It knows source text only, and runs nothing.

A defect is one changed comparison, number, condition, statement or order of arguments. The rest of the text stays as it is.
"""

import ast
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

__all__ = ("Mutation", "mutations")

_COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_SYMMETRIC: Final = frozenset({"max", "min", "math.gcd", "hmac.compare_digest"})
_Function = ast.FunctionDef | ast.AsyncFunctionDef
#: No behaviour follows from these parts: types, decorators, sentences for people, and checks of the type checker.
_SKIPPED: Final = (ast.JoinedStr, ast.Assert, ast.AnnAssign, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Mutation(Struct, frozen=True):
    """A defect: the bytes of a source that it replaces, and its name for people."""

    #: The first line of the function's body, and the line of the defect.
    body: int
    line: int
    function: str
    kind: str
    begin: int
    end: int
    old: str
    new: str

    def plant(self, source: str) -> str:
        """Return the source with this defect."""
        data = source.encode()
        return (data[: self.begin] + self.new.encode() + data[self.end :]).decode()

    @property
    def lines(self) -> range:
        """The lines of the source from the function's body to the end of the defect."""
        return range(self.body, self.line + self.old.count("\n") + 1)

    @property
    def name(self) -> str:
        """The function, the kind, and the begin of both texts. It stays as it is if the lines above change."""
        old, new = (" ".join(text.split())[:60] for text in (self.old, self.new))
        return f"{self.function}: {self.kind}: {old} -> {new}"


def mutations(source: str) -> Iterator[Mutation]:
    """Yield each defect of each function."""
    data, starts = source.encode(), [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        last = starts[(node.end_lineno or node.lineno) - 1]
        return starts[node.lineno - 1] + node.col_offset, last + (node.end_col_offset or 0)

    def text(node: ast.AST) -> str:
        begin, end = place(node)
        return data[begin:end].decode()

    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, _Function):
            continue
        for node in _inside(function):
            for kind, target, new in _defects(node, text):
                begin, end = place(target)
                yield Mutation(function.body[0].lineno, node.lineno, function.name, kind, begin, end, text(target), new)


def _inside(function: _Function) -> Iterator[ast.expr | ast.stmt]:
    """Yield the statements and expressions of a function, without those of the functions and classes inside it."""
    waiting: list[ast.AST] = list(function.body)
    for node in waiting:
        if isinstance(node, ast.expr | ast.stmt) and not isinstance(node, _SKIPPED):
            yield node
        if not isinstance(node, (*_SKIPPED, ast.Raise)):
            waiting += ast.iter_child_nodes(node)


def _defects(node: ast.AST, text: Callable[[ast.AST], str]) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield each defect of a node: its kind, the node to replace, and the new text."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
            changed = ast.Compare(left, [_COMPARED[type(op)]()], [right])
            yield "comparison", node, ast.unparse(changed)
        case ast.Constant(value=bool() as value):
            yield "constant", node, str(not value)
        case ast.Constant(value=int() as value):
            yield "constant", node, str(value + 1)
            yield "constant", node, f"({value - 1})"
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield "condition", test, f"(not ({text(test)}))"
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "condition", node, f"({ast.unparse(ast.BoolOp(other, values))})"
        case ast.Expr(value=ast.Call(func=ast.Name(id="assert_never"))):
            return  # as an assertion: only the type checker can tell
        case ast.Raise() | ast.AugAssign() | ast.Expr(value=ast.Call() | ast.Await()):
            yield "removed statement", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "removed statement", node, "pass"
        case ast.Call(func=func, args=[first, second, *rest]) if text(func) not in _SYMMETRIC:
            if not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred) and text(first) != text(second):
                yield "swapped arguments", node, ast.unparse(ast.Call(func, [second, first, *rest], node.keywords))
        case _:
            return
