"""Finds sentences that need a second reading: `python -m tests.plain_english [PLACES]`.

Reads comments, docstrings, messages and documentation pages; knows a few patterns, each with the words that mend it. It also
finds sentences of more than 25 words. The check fails if it finds anything: there is no list of exceptions.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.plain_english.sentences import WORDS_MAX, comments_of, long_sentences, nodes_of

__all__ = ("Finding", "Pattern", "docstrings_of", "findings_in", "main", "sentences_of")

ROOT: Final = Path(__file__).parents[2]
PLACES: Final = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md"),
    *("mqflow", "plugins", "examples", "benchmarks", "docs", "tests"),
)


class Pattern(Struct, frozen=True):
    """A turn of phrase that makes the reader stop, and what to write instead."""

    name: str
    expression: re.Pattern[str]
    instead: str


class Finding(Struct, frozen=True):
    """One place: file, line, the pattern and the words that match it."""

    file: str
    line: int
    pattern: Pattern
    words: str


def _pattern(name: str, expression: str, instead: str) -> Pattern:
    return Pattern(name, re.compile(expression, re.MULTILINE), instead)


PATTERNS: Final = (
    _pattern("whoever", r"\b[Ww]ho(m)?ever\b", "name the subject: the caller, the application, the listener"),
    _pattern(
        "who without a noun",
        r"(?:^|[.:;(,] |\b(?:of|to|for|by|from|and|than|is|are|as|if|told) )[Ww]ho (?!am\b)(?!else\b)[a-z]+s? ",
        "name the subject before 'who'",
    ),
    _pattern(
        "what as a noun",
        r"(?:^|[.:;,] |\b(?:of|to|for|by|from|than|with) )[Ww]hat (?:is|was|has|had|comes|came|goes|went|it|they|there) ",
        "name the thing",
    ),
    _pattern(
        "of which, of one",
        r"\b[Oo]f (?:whom|whose|which each|one that|those that|what) ",
        "name the thing, or split the sentence",
    ),
    _pattern(
        "passive without an actor",
        r"\b(?:is|are|was|were|be) (?:told|had|heard|said)\b(?! by )",
        "say who does it: the listener logs, the hook receives",
    ),
    _pattern(
        "a docstring that begins with Of", r"^Of (?:a|an|one|the|what|each|all) ", "write a sentence about the thing itself"
    ),
    _pattern(
        "where for if", r"(?:^|[.:;,] )[Ww]here (?:none|nothing|it|one|that|there|no|nobody|they|this) ", "write 'if' or 'when'"
    ),
    _pattern("shall", r"\bshall\b", "write 'must', 'can' or the present tense"),
    _pattern("that which", r"\b(?:that which|which is what|that is what|it is that)\b", "name the thing"),
    _pattern("is none", r"\b(?:is|are|was|were) none\b", "write 'there is no ...' or 'is not a ...'"),
    _pattern(
        "a source that no reader finds",
        r"\b(?:facts? \d+\.\d+|facts on [A-Z]\w+,|Source: facts|(?:Source|Docs): reliability|goals? R\d+|seed (?:document|page)"
        r"|recalled)\b",
        "name the page of the source, or write 'from memory'",
    ),
    _pattern("unless told", r"\bunless (?:told|said|asked)\b", "write 'by default', or name the option"),
    _pattern("the latter", r"\b(?:the latter|respectively|vice versa)\b", "repeat the noun"),
    _pattern(
        "an old word",
        r"\b(?:lest|whence|thereof|therein|herein|whereby|hitherto|albeit|whilst|amongst|notwithstanding)\b",
        "use a common word",
    ),
    _pattern("for good", r"\bfor good\b(?! messages)", "write 'permanently'"),
    _pattern("anew", r"\b(?:anew|now and then|all the same)\b", "write 'again', 'from time to time' or 'nevertheless'"),
    _pattern("Note that", r"^Note (?:that|the|a|an|one) ", "write 'Record': 'Note' can be read as 'Please note'"),
    _pattern("Return when", r"^Return when ", "write 'Wait until', or 'Return the time of'"),
    _pattern(
        "riddle",
        r"\b(?:lent line|gets its way|is on its way|dealt with|parting|the one who|the other's|one's own)\b",
        "use the field's word",
    ),
)


_DOCSTRING: Final = _pattern(
    "a docstring that begins with What",
    r"^(?:What|Which|Where)\b(?!.*\?)",
    "name the thing: the contents, the state, the parts",
)


_LONG: Final = _pattern(
    f"a sentence with more than {WORDS_MAX} words", r"^(?:\S+\s+){0,6}\S+", "one idea in each sentence: split it"
)


def docstrings_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the first line of each docstring of a file, also of the docstrings below constants and fields."""
    if path.suffix == ".py":
        for node in nodes_of(path.read_text("utf-8")):
            match node:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield node.lineno, text.lstrip().partition("\n")[0]


def sentences_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that a person reads: of Python comments, texts and names of tests, of a page all outside code blocks."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        code = False
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("```"):
                code = not code
            elif not code:
                yield number, re.sub(r"`[^`]*`", "`x`", line).lstrip("#-*> |")
        return
    for comment in comments_of(text):
        yield comment.line, comment.text
    for node in nodes_of(text):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name.removeprefix("test_").replace("_", " ")
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for offset, line in enumerate(node.value.splitlines()):
                yield node.lineno + offset, line.strip()


def findings_in(path: Path, name: str) -> Iterator[Finding]:
    """Yield the findings in one file."""
    sentences = list(sentences_of(path))
    lines = "\n".join(line for _, line in sentences)  # so each pattern needs one search for each file
    for pattern in PATTERNS:
        for match in pattern.expression.finditer(lines):
            number, _ = sentences[lines.count("\n", 0, match.start())]
            yield Finding(name, number, pattern, match[0].strip())
    for number, line in docstrings_of(path):
        if found := _DOCSTRING.expression.search(line):
            yield Finding(name, number, _DOCSTRING, found[0].strip())
    for number, sentence in long_sentences(path):
        if found := _LONG.expression.search(sentence):
            yield Finding(name, number, _LONG, f"{found[0]} ...")


def _files(chosen: list[str]) -> Iterator[Path]:
    for start in chosen:
        top = ROOT / start
        yield from [top] if top.is_file() else sorted([*top.rglob("*.py"), *top.rglob("*.md")])


def main(arguments: list[str]) -> int:
    """Print every finding, and return 1 if there is one, otherwise 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.plain_english", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("places", nargs="*", help="files or folders, all by default")
    wanted = parser.parse_args(arguments)
    own = Path(__file__).parent
    found = [
        finding
        for path in _files(wanted.places or list(PLACES))
        if own not in path.parents
        for finding in findings_in(path, path.relative_to(ROOT).as_posix())
    ]
    for finding in found:
        print(f"{finding.file}:{finding.line}: {finding.words!r}: {finding.pattern.name}; {finding.pattern.instead}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
