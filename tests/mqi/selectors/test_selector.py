"""Message selectors. Rows are from IBM's description of the syntax (q023010) unless they name something else."""

import inspect
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.mqi.properties.property_names import settable_name
from mqflow.mqi.selectors.selector import SelectorError, Value, compile_selector

PROPERTIES: dict[str, Value] = {
    "colour": "red", "weight": 2500, "price": 9.5, "urgent": True, "key": b"\x2f\x1c", "name": "l'Oréal 100%",
    "Root.MQMD.Priority": 4,
}  # fmt: skip

ROWS = [
    ("colour = 'red'", True, "string"),
    ("colour = 'Red'", False, "case matters in strings"),
    ("Colour = 'red'", False, "and in names: a property that is not there is unknown"),
    ("colour <> 'blue'", True, "unequal"),
    ("colour = 5", False, "different types are not equal"),
    ("colour <> 5", False, "nor unequal"),
    ("colour > 'a'", False, "strings have no order here"),
    ("name = 'l''Oréal 100%'", True, "two quotes are one"),
    ("weight > 2000 AND colour = 'red'", True, "and"),
    ("weight > 2000 and not colour = 'blue'", True, "keywords in any case"),
    ("weight < 2000 OR price >= 9.5", True, "or, and a float"),
    ("weight < 2000 OR colour = 'blue' AND urgent = TRUE", False, "and binds more closely"),
    ("(weight < 2000 OR colour = 'red') AND urgent", True, "brackets; a boolean stands for itself"),
    ("NOT urgent", False, "not"),
    ("NOT NOT urgent", True, "twice"),
    ("weight BETWEEN 2500 AND 2600", True, "between, both ends included"),
    ("weight NOT BETWEEN 2500 AND 2600", False, "not between"),
    ("weight BETWEEN 1 AND 2 OR colour = 'red'", True, "the AND of between is its own"),
    ("colour IN ('blue', 'red')", True, "in"),
    ("colour NOT IN ('blue', 'green')", True, "not in"),
    ("colour LIKE 'r%'", True, "like: any characters"),
    ("colour LIKE 'r_d'", True, "like: one character"),
    ("colour LIKE 'r.d'", False, "a full stop is a full stop"),
    ("name LIKE '%!%' ESCAPE '!'", True, "like: escape"),
    ("colour LIKE 'r!%' ESCAPE '!'", False, "like: escaped is ordinary"),
    ("colour NOT LIKE 'b%'", True, "not like"),
    ("colour IS NOT NULL", True, "is not null"),
    ("size IS NULL", True, "is null"),
    ("size = 1", False, "unknown is not selected"),
    ("NOT size = 1", False, "not unknown is unknown"),
    ("size = 1 OR urgent", True, "unknown or true is true"),
    ("size = 1 AND urgent", False, "unknown and true is unknown"),
    ("NOT (size = 1 AND NOT urgent)", True, "unknown and false is false"),
    ("size IN ('a')", False, "unknown"),
    ("NOT size LIKE 'a%'", False, "unknown"),
    ("weight = 2 * 1000 + 500", True, "arithmetic, * before +"),
    ("weight / 2 - -50 = 1300", True, "signs"),
    ("weight = +2500", True, "signs"),
    ("weight / 0 = 1", False, "no number, unknown"),
    ("weight + colour = 1", False, "no number, unknown"),
    ("price = 95E-1", True, "exponent"),
    ("price = .95e1", True, "no digit before the point"),
    ("weight = 0x9C4", True, "hexadecimal"),
    ("weight = 2500L", True, "suffix of a long"),
    ("weight = 04704", True, "octal"),
    ("weight = 02500", False, "octal"),
    ("weight = 09", None, "09 is not an octal number"),
    ("weight > 0 AND weight > 00L", True, "octal"),
    ("weight = 25\u0660\u0660", None, "digits are 0 to 9"),
    ("weight = \u0662.0", None, "digits are 0 to 9"),
    ('key = 0x"2F1C"', True, "byte string"),
    ("key = '2F1C'", False, "bytes are not text"),
    ("Root.MQMD.Priority = 4", True, "names with full stops"),
    ("weight = 1 = urgent", None, "comparisons do not chain"),
]


@pytest.mark.parametrize(("text", "expected", "source"), ROWS, ids=[row[0] for row in ROWS])
def test_a_selector_selects(text: str, *, expected: bool | None, source: str) -> None:
    if expected is None:
        with pytest.raises(SelectorError):
            compile_selector(text)
    else:
        assert expected == compile_selector(text)(PROPERTIES.get), source


BROKEN = [
    ("", 1, "a property, a value or '('"),
    ("colour =", 9, "a property, a value or '('"),
    ("colour = 'red", 10, "the quote is never closed"),
    ("colour = 'it''s red''", 10, "the quote is never closed"),
    ("colour = 'red' colour", 16, "AND, OR or the end"),
    ("colour NOT 5", 12, "BETWEEN, IN or LIKE"),
    ("colour IN (5)", 12, "a string in single quotes"),
    ("colour IN 'red'", 11, "( is expected"),
    ("colour LIKE colour", 13, "a string in single quotes"),
    ("colour LIKE 'a' ESCAPE 'bc'", 24, "one character"),
    ("weight BETWEEN 1 OR 2", 18, "AND is expected"),
    ("(colour = 'red'", 16, ") is expected"),
    ("colour == 'red'", 9, "a property, a value or '('"),
    ("weight = " + "9" * 5000, 29, "AND, OR or the end"),
    ('colour = "red"', 10, "is no part of a selector"),
    ("colour IS 5", 11, "NULL is expected"),
    ("(" * 1000 + "a" + ")" * 1000, 25, "nested more than 24 deep"),
]


@pytest.mark.parametrize(("text", "position", "message"), BROKEN, ids=[row[0][:30] for row in BROKEN])
def test_a_selector_that_makes_no_sense_is_refused_with_the_place(text: str, position: int, message: str) -> None:
    with pytest.raises(SelectorError, match=r"At character") as refused:
        compile_selector(text)

    assert position == refused.value.position
    assert message in refused.value.message


@given(st.text("ab'()=<>+-*/, 01.xX\"NOTANDLIKEIS%_", max_size=40))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    try:
        selector = compile_selector(text)
    except SelectorError:
        return

    values: dict[str, Value] = {"a": "a", "b": 1}
    assert selector(values.get) in {True, False}


@given(st.text("ab%_", max_size=8), st.text("ab", max_size=8))
def test_like_is_the_plain_reading_of_its_pattern(pattern: str, value: str) -> None:
    def read(wanted: str, found: str) -> bool:
        if not wanted:
            return not found
        if wanted[0] == "%":
            return any(read(wanted[1:], found[taken:]) for taken in range(len(found) + 1))
        return bool(found) and wanted[0] in {"_", found[0]} and read(wanted[1:], found[1:])

    assert read(pattern, value) == compile_selector(f"p LIKE '{pattern}'")({"p": value}.get)


@pytest.mark.parametrize(
    ("text", "selected"),
    [("one + " * 5_000 + "1 = 5001", True), ("one * " * 5_000 + "1 = 1", True), ("8 - 4 - 2 - 1 = 1 AND 8 / 4 / 2 = 1", True)],
    ids=["sum", "product", "from the left"],
)
def test_a_calculation_may_be_as_long_as_the_text(text: str, *, selected: bool) -> None:
    """The nested calls for such a selector once exceeded Python's recursion limit when a message arrived."""
    assert compile_selector(text)(lambda _: 1) is selected


def _is_refused(text: str) -> bool:
    try:
        compile_selector(text)
    except SelectorError:
        return True
    return False


@pytest.mark.parametrize(
    ("opens", "inner", "value"),
    [("1 BETWEEN 0 AND ", "1", 1), ("a = 2 OR b = 2 AND NOT ", "a = 2", 1), ("1 + 2 * - ", "1", 1)],
    ids=["most calls of the parser", "most calls for a message", "numbers"],
)
def test_the_deepest_selector_needs_at_most_a_third_of_pythons_stack(opens: str, inner: str, value: int) -> None:
    """An application that calls from deep in its own code would otherwise get a RecursionError."""
    texts = [f"{opens}(" * depth + inner + ")" * depth for depth in range(100)]
    deepest = [text for text in texts if not _is_refused(text)][-1]
    compile_selector.cache_clear()

    def deep(calls: int) -> bool:
        return deep(calls - 1) if calls else compile_selector(deepest)(lambda _: value)

    assert deep(sys.getrecursionlimit() * 2 // 3 - len(inspect.stack())) in {True, False}


@pytest.mark.parametrize("name", ["Äpfel", "größe", "$cost", "_a", "π.r2", "a.ß", "ıs", "lıke", "falſe"])  # noqa: RUF001 - letters whose capitals are in ASCII
def test_a_property_may_have_any_letters_in_its_name(name: str) -> None:
    assert f"usr.{name}" == settable_name(f"usr.{name}")
    assert compile_selector(f"{name} = 1")({name: 1}.get)
