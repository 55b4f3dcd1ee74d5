"""A sentence with more than 25 words is found in each kind of text."""

import io
import tokenize
from pathlib import Path

import pytest

from tests.plain_english.sentences import WORDS_MAX, comments_of, long_sentences

LONG = " ".join(["Word", *["word"] * (WORDS_MAX - 1), "word."])
SHORT = " ".join(["Word", *["word"] * (WORDS_MAX - 2), "word."])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.md", f"# Title\n\n{SHORT} {LONG} {SHORT}\n"),
        ("page.md", f"- {SHORT}\n- {LONG[:40]}\n  {LONG[40:]}\n"),
        ("file.py", f'"""{SHORT} {LONG}"""\n'),
        ("file.py", f"# {LONG[:40]}\n# {LONG[40:]}\n"),
        ("file.py", f'raise ValueError("{LONG[:40]}" "{LONG[40:]}")\n'),
        ("file.py", f'raise ValueError(f"{{name}} {LONG[5:]}")\n'),
    ],
    ids=["a paragraph", "an item", "a docstring", "a comment", "a message", "a message with a value"],
)
def test_a_sentence_with_too_many_words_is_found_once(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)

    assert 1 == len(list(long_sentences(tmp_path / name)))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.md", f"{SHORT} {SHORT}\n\n```\n{LONG}\n```\n\n| {LONG} |\n"),
        ("page.md", f"Use `{LONG}` and [a link](https://example.com/{'a/' * 40}).\n"),
        ("file.py", f"# {SHORT}\nx = 1  # {SHORT}\ny = 2  # {SHORT}\n"),
        ("page.md", f"{SHORT} mqflow {SHORT[5:]}\n"),
        ("file.py", f'QUERY = "{"a int, " * 40}"\n'),
    ],
    ids=["code and tables", "code and links in a sentence", "comments", "a product begins a sentence", "a text without an end"],
)
def test_texts_that_are_not_long_sentences_are_left_alone(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)

    assert [] == list(long_sentences(tmp_path / name))


COMMENTS = r'''
a = "# no \" # no"  # one
b = r"\\"  #: two
c = """# no " # no
# no \""" # no
"""  # three
d = f'# no {a!r} \' # no'
    # four
e = "" '' # five
'''


def test_a_comment_is_found_on_its_line_and_no_text_is_a_comment() -> None:
    tokens = tokenize.generate_tokens(io.StringIO(COMMENTS).readline)
    expected = [(token.start[0], token.string.lstrip("#: ")) for token in tokens if token.type == tokenize.COMMENT]

    found = comments_of(COMMENTS)

    assert expected == [(comment.line, comment.text) for comment in found]
    assert ["four"] == [comment.text for comment in found if comment.alone]
