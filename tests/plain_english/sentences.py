"""Finds sentences of more than 25 words in the texts of a file: docstrings, comments, messages, and the paragraphs of a page.

Code in backticks is one word. Rows of tables, headings, code blocks and lists of sources are not sentences. A text
without an end is not a sentence either.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct

__all__ = ("WORDS_MAX", "Comment", "comments_of", "long_sentences", "nodes_of")

WORDS_MAX: Final = 25

_CLOSING: Final = r"[\"')\]`*]*"
_BETWEEN: Final = re.compile(rf"(?<=[.!?]){_CLOSING}\s+(?=[^a-z]|mqflow|ibmmq|pymqi|msgspec)")
_END: Final = re.compile(rf"[.!?:]{_CLOSING}$")
_ITEM: Final = re.compile(r"^([-*]|\d\.) ")
_SOURCES: Final = re.compile(r"Source: ")
_CODE: Final = re.compile(r"`[^`]*`|\[([^\]]*)\]\([^)]*\)")
#: A text, or a comment. Python's own tokenizer takes longer than all other parts of the check.
_TEXT_OR_COMMENT: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"""|' r"'''(?:[^'\\]|\\.|'(?!''))*'''|" r'"(?:[^"\\]|\\.)*"|' r"'(?:[^'\\]|\\.)*'|(#[^\n]*)",
    re.DOTALL,
)


class Comment(Struct, frozen=True):
    """A comment without its `#`, its line, and whether the line has nothing else."""

    line: int
    text: str
    alone: bool


@lru_cache(maxsize=1)  # each file is asked for several times in a row
def nodes_of(source: str) -> Sequence[ast.AST]:
    """Return the nodes of the syntax tree from the outside in, each level in the order of the file."""
    nodes: list[ast.AST] = [ast.parse(source)]
    for node in nodes:
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                nodes.append(value)
            elif isinstance(value, list):
                nodes.extend(each for each in value if isinstance(each, ast.AST))
    return nodes


@lru_cache(maxsize=1)
def comments_of(source: str) -> Sequence[Comment]:
    """Return the comments."""
    comments, line, counted = list[Comment](), 1, 0
    for found in _TEXT_OR_COMMENT.finditer(source):
        if found[1]:
            line += source.count("\n", counted, found.start())
            counted = found.start()
            before = source[source.rfind("\n", 0, counted) + 1 : counted]
            comments.append(Comment(line, found[1].lstrip("#: "), not before.strip()))
    return comments


def long_sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each sentence with more than 25 words, and the line on which its text begins."""
    text = path.read_text("utf-8")
    for line, paragraph in _paragraphs(_without_code(text), 1) if path.suffix == ".md" else _texts(text):
        for sentence in _BETWEEN.split(paragraph):
            if _END.search(sentence) and not _SOURCES.match(sentence) and _words(sentence) > WORDS_MAX:
                yield line, sentence


def _words(sentence: str) -> int:
    plain = _CODE.sub(lambda found: found[1] or "x", sentence)
    return sum(any(char.isalnum() for char in word) for word in plain.split())


def _without_code(page: str) -> str:
    return re.sub(r"^ *```.*?^ *```$", lambda block: "\n" * block[0].count("\n"), page, flags=re.DOTALL | re.MULTILINE)


def _texts(source: str) -> Iterator[tuple[int, str]]:
    yield from _comments(source)
    parts = {id(part) for node in nodes_of(source) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes_of(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield from _paragraphs(node.value, node.lineno)
        if isinstance(node, ast.JoinedStr):
            values = (str(part.value) if isinstance(part, ast.Constant) else "`x`" for part in node.values)
            yield from _paragraphs("".join(values), node.lineno)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    block, start = list[str](), 0
    for comment in comments_of(source):
        continues = block and comment.alone and comment.line == start + len(block)
        if not continues:
            yield start, " ".join(block)
            block, start = [], comment.line
        block.append(comment.text)
    yield start, " ".join(block)


def _paragraphs(text: str, first: int) -> Iterator[tuple[int, str]]:
    lines, start = list[str](), first
    for number, line in enumerate([*text.splitlines(), ""], first):
        stripped = line.strip()
        is_prose = stripped and not stripped.startswith(("|", "#", "<", "!!!", ":::", ">>>", "$"))
        if lines and (not is_prose or _ITEM.match(stripped)):
            yield start, " ".join(lines)
            lines = []
        if is_prose:
            start = start if lines else number
            lines.append(_ITEM.sub("", stripped, count=1))
