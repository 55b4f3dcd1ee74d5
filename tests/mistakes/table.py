"""The typical mistakes of a new user, from the tables beside this file, and the page of them: docs/errors.md.

`python -m tests.mistakes.table > docs/errors.md` writes the page. The tests run each mistake: the page has what mqflow prints.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from mqflow.mqi.errors import ADVICE, ADVICE_CONNECTING
from mqflow.mqi.reason_codes import reason_name

__all__ = ("Mistake", "mistakes", "page")

_HERE: Final = Path(__file__).parent
_PACKAGE: Final = _HERE.parents[1] / "mqflow"
_SHOWN_PORT: Final = "1414"
_WRAP: Final = "\n\n"


class Mistake(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One mistake: a program, or a command with a file; and a part of the output."""

    does: str
    prints: str
    program: str = ""
    command: str = ""
    file: str = ""
    text: str = ""


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    mistake: tuple[Mistake, ...]


class Text(Struct, frozen=True, order=True):
    """The text of an error in the code. {...} stands for a value."""

    kind: str
    text: str


def mistakes(table: str) -> Sequence[Mistake]:
    """Return the rows of `programs` or `commands`."""
    return msgspec.toml.decode((_HERE / f"{table}.toml").read_bytes(), type=_Table).mistake


def page() -> str:
    """Return the page: the mistakes with their output, then every text of an error in the code, by its class."""
    parts = [_INTRODUCTION]
    for title, table in (("## In a program", "programs"), ("## On the command line", "commands")):
        parts += [title, *map(_section, mistakes(table))]
    parts += [_OF_CALLS, "\n".join(_advice())]
    parts.append(_EVERY_TEXT)
    documented, texts = dict[str, str](), set[Text]()
    for path in sorted(_PACKAGE.rglob("*.py")):
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        documented |= _classes(nodes)
        texts.update(_texts(nodes))
    for kind in sorted({text.kind for text in texts}):
        cause = documented.get(kind, "An exception of Python or of a library.")
        parts.append(f"### {kind}{_WRAP}{cause}")
        parts.append("\n".join(f"- {_code(text.text)}" for text in sorted(texts) if text.kind == kind))
    return _WRAP.join(parts) + "\n"


_INTRODUCTION: Final = """# Errors

What mqflow prints after a mistake, and what to do. Search this page for a part of the sentence that you see. The page is made
from the code, and from a table of mistakes that the tests run: `python -m tests.mistakes.table > docs/errors.md`.

An error of a call of the queue manager names the call, the object, the reason code and its number.
[Reason codes](reason-codes.md) has every code, and `mqflow reason 2085` explains one of them. `mqflow --debug COMMAND`, or
`MQFLOW_DEBUG=1`, prints the traceback of an error."""

_OF_CALLS: Final = """## A call of the queue manager

The text is `VERB on OBJECT (QUEUE MANAGER) failed: MQRC_NAME (CODE).`, then a detail, then this advice. The advice after
"To connect:" is for MQCONNX."""

_EVERY_TEXT: Final = """## Every text, by exception

The sentence under the name says when mqflow raises the exception. `{...}` stands for a value."""


def _advice() -> Iterator[str]:
    for code in sorted(ADVICE.keys() | ADVICE_CONNECTING.keys()):
        said = (ADVICE.get(code, ""), f"To connect: {ADVICE_CONNECTING[code]}" if code in ADVICE_CONNECTING else "")
        yield f"- `{reason_name(code)}`: {' '.join(filter(None, said))}"


def _section(mistake: Mistake) -> str:
    source = f"```python\n{mistake.program.strip()}\n```" if mistake.program else _console(mistake)
    printed = f"```text\n{mistake.prints.replace('{port}', _SHOWN_PORT)}\n```"
    return _WRAP.join((f"### {mistake.does}", source.replace("```python", "```py"), printed))


def _console(mistake: Mistake) -> str:
    shown = f"```console\n$ mqflow {mistake.command.replace('{port}', _SHOWN_PORT)}\n```"
    if not mistake.text:
        return shown
    return _WRAP.join((f"`{mistake.file}`:", f"```text\n{mistake.text.rstrip()}\n```", shown))


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    space = " " if fence == "``" else ""
    return f"{fence}{space}{text}{space}{fence}"


def _classes(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of each exception of mqflow, as one line."""
    for node in nodes:
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
            yield node.name, " ".join((ast.get_docstring(node) or "").split())


def _texts(nodes: Sequence[ast.AST]) -> Iterator[Text]:
    """Yield each text that the code gives to an exception, and each text that an exception makes of its fields."""
    for scope in nodes:
        if isinstance(scope, ast.ClassDef) and scope.name.endswith("Error"):
            yield from (Text(scope.name, text) for text in _returned_by_str(scope))
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _raised_in(scope)


def _raised_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Text]:
    nodes = list(ast.walk(function))
    assigned = {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error") and node.args:
            given = node.args[-1]
            text = _literal(assigned.get(given.id, given) if isinstance(given, ast.Name) else given)
            if " " in text:  # a sentence; other arguments are names and numbers
                yield Text(node.func.id.removeprefix("_"), text)


def _returned_by_str(scope: ast.ClassDef) -> Iterator[str]:
    for function in scope.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__str__":
            returns = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
            yield from filter(None, map(_literal, returns))


def _literal(node: ast.expr) -> str:
    """Return the text of a literal, with {...} for each value in it; empty for any other expression."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_literal(value) if isinstance(value, ast.Constant) else "{...}" for value in values)
        case _:
            return ""


if __name__ == "__main__":
    sys.stdout.write(page())
