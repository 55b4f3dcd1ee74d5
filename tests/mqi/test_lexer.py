"""In every language, text is cut into tokens with their places."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.mqi.lexer import BRACKETS, Continued, Scanner, Token, TokenKind, continued, source_lines

SCANNER = Scanner({**BRACKETS, TokenKind.WORD: r"[^\s,()']+"})


def tokens_of(script: str) -> list[list[Token]]:
    found = continued(source_lines(script), indented_comments=True)
    return [[token for token, _, _ in SCANNER.tokens(source)] for source in found]


def test_a_token_has_the_line_and_column_of_its_first_character() -> None:
    [tokens] = tokens_of("* comment\n\nDESCR( +\n   'it''s',-\nB)")

    assert [
        (TokenKind.WORD, "DESCR", 3, 1),
        (TokenKind.OPEN, "(", 3, 6),
        (TokenKind.STRING, "it's", 4, 4),
        (TokenKind.WORD, "B", 5, 1),
        (TokenKind.CLOSE, ")", 5, 2),
    ] == [(token.kind, token.text, token.line, token.column) for token in tokens]


def test_a_token_may_begin_in_one_line_and_end_in_the_next() -> None:
    [[token]] = tokens_of("DIS-\nPLAY")

    assert Token(TokenKind.WORD, "DISPLAY", 1, 1) == token


def test_nothing_follows_a_quote_that_is_never_closed() -> None:
    [[word, quote]] = tokens_of("A 'b (c)")

    assert (TokenKind.WORD, TokenKind.QUOTE) == (word.kind, quote.kind)


def test_text_that_no_expression_matches_is_one_token_up_to_the_end() -> None:
    [(token, start, end)] = Scanner({TokenKind.INTEGER: r"\d+"}).tokens(Continued.of("one 1"))

    assert (Token(TokenKind.UNKNOWN, "one 1", 1, 1), 0, 5) == (token, start, end)


def test_a_mark_that_nothing_continues_has_a_place() -> None:
    [source] = continued(["PING +", "* comment"], indented_comments=True)

    assert Token(TokenKind.MARK, "+", 1, 6) == source.end


@pytest.mark.parametrize(
    ("written", "read"),
    [("orders.In", "ORDERS.IN"), ("größe", "GRÖßE"), ("ß", "ß"), ("ﬁle", "ﬁLE"), ("dıs", "DıS"), ("ſub", "ſUB")],  # noqa: RUF001 - letters whose capitals are in ASCII
)
def test_no_other_letter_becomes_a_letter_of_a_name(written: str, read: str) -> None:
    assert read == Token(TokenKind.WORD, written, 1, 1).folded


@given(st.text(alphabet="aB1'()+-*,; \n\r", max_size=40))
def test_every_token_of_any_text_stands_where_it_says(script: str) -> None:
    lines = source_lines(script)

    for tokens in tokens_of(script):
        for token in tokens:
            first = "'" if token.kind in {TokenKind.STRING, TokenKind.QUOTE} else token.text[0]
            assert lines[token.line - 1][token.column - 1] == first
