"""Every record of every copybook becomes bytes and the same record again, in each code page and byte order."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from mqflow_copybook import Copybook, FieldError

EBCDIC = (37, 273, 297, 500, 1047, 1140, 1141)
MACHINES = st.sampled_from([*((page, 785) for page in EBCDIC), (819, 546), (819, 273), (1252, 546), (1208, 546), (37, 546)])
LETTERS = "ABZaz09 .-/"
USAGES = ("", " COMP", " COMP-3", " COMP-5", " SIGN LEADING", " SIGN TRAILING SEPARATE", " LEADING SEPARATE")


@st.composite
def numbers(draw: DrawFn) -> tuple[str, SearchStrategy[Any]]:
    """Return the clauses of a number, and a strategy for its values."""
    usage = draw(st.sampled_from(USAGES))
    signed = draw(st.sampled_from(["S", ""]))
    digits, scale = draw(st.integers(1, 18 if usage in {" COMP", " COMP-5"} else 31)), draw(st.sampled_from([0, 0, 2, -2]))
    scale = min(scale, digits)
    body = f"9({digits})P(2)" if scale < 0 else f"9({digits - scale})V9({scale})" if 0 < scale < digits else f"9({digits})"
    scale = scale if 0 < scale < digits or scale < 0 else 0
    least = -(10**digits) + 1 if signed else 0
    values = st.integers(least, 10**digits - 1).map(lambda units: value(units, scale))
    return f"PIC {signed}{body}{usage}", values


def value(units: int, scale: int) -> int | Decimal:
    return units * 10**-scale if scale <= 0 else Decimal(f"{units}E-{scale}")


@st.composite
def texts(draw: DrawFn) -> tuple[str, SearchStrategy[Any]]:
    size = draw(st.integers(1, 9))
    clause, strip = draw(st.sampled_from([("", str.rstrip), (" JUSTIFIED", str.lstrip)]))
    return f"PIC X({size}){clause}", st.text(LETTERS, max_size=size).map(lambda text: strip(text, " "))


FLOATS: tuple[str, SearchStrategy[Any]] = ("COMP-2", st.integers(-(2**53), 2**53).map(lambda number: number / 1024))
ELEMENTS = st.one_of(numbers(), texts(), st.just(FLOATS))


@st.composite
def groups(draw: DrawFn, level: int = 5) -> tuple[list[str], dict[str, SearchStrategy[Any]]]:
    """Return the statements of the items of a group, and a strategy for the value of each."""
    lines: list[str] = []
    fields: dict[str, SearchStrategy[Any]] = {}
    for number in range(draw(st.integers(1, 4))):
        name = f"L{level}-ITEM-{number}"
        key = name.lower().replace("-", "_")
        match draw(st.sampled_from(["element", "element", "filler", "group" if level < 15 else "element", "table"])):
            case "filler":
                lines.append(f"{level:02} FILLER PIC X({draw(st.integers(1, 5))}).")
            case "group":
                below, inner = draw(groups(level=level + 5))
                lines += [f"{level:02} {name}.", *below]
                fields[key] = st.fixed_dictionaries(inner)
            case "table":
                clauses, values = draw(ELEMENTS)
                most = draw(st.integers(1, 3))
                lines.append(f"{level:02} {name} {clauses} OCCURS {most} TIMES.")
                fields[key] = st.lists(values, min_size=most, max_size=most)
            case _:
                clauses, values = draw(ELEMENTS)
                lines.append(f"{level:02} {name} {clauses}.")
                fields[key] = values
    return lines, fields


@st.composite
def copybooks(draw: DrawFn) -> tuple[str, Mapping[str, Any]]:
    """Return a copybook with a table that depends on a count, and a record of it."""
    lines, fields = draw(groups())
    below, entry = draw(groups(level=10))
    entries = draw(st.lists(st.fixed_dictionaries(entry), max_size=3))
    lines += [
        "05 ENTRY-COUNT PIC 9(2) COMP.",
        "05 ENTRIES OCCURS 0 TO 3 TIMES DEPENDING ON ENTRY-COUNT.",
        *below,
        "05 LAST-ITEM PIC X.",
    ]
    record = {**draw(st.fixed_dictionaries(fields)), "entry_count": len(entries), "entries": entries, "last_item": "Z"}
    return "\n".join(["01 RECORD-1.", *lines]), record


@settings(max_examples=40)
@given(copybooks(), MACHINES)
def test_a_record_becomes_bytes_and_the_same_record_again(
    made: tuple[str, Mapping[str, Any]], machine: tuple[int, int]
) -> None:
    text, record = made
    book = Copybook(text, ccsid=machine[0], encoding=machine[1])

    body = book.to_bytes(record)

    assert record == book.from_bytes(body)
    assert record == book.from_bytes(book.to_bytes(book.type(**book.from_bytes(body))))
    assert len(body) <= book.record.size


@settings(max_examples=40)
@given(copybooks(), MACHINES, st.binary(max_size=400))
def test_any_bytes_are_a_record_or_a_named_error(
    made: tuple[str, Mapping[str, Any]], machine: tuple[int, int], body: bytes
) -> None:
    book = Copybook(made[0], ccsid=machine[0], encoding=machine[1], longer=True)

    try:
        read = book.from_bytes(body)
    except FieldError:
        return
    assert book.type.__struct_fields__ == (*read,)


@given(st.floats(min_value=-1e70, max_value=1e70, allow_subnormal=False))
def test_a_hexadecimal_float_has_the_digits_of_a_float(number: float) -> None:
    book = Copybook("01 R. 05 F COMP-2.")

    read = book.from_bytes(book.to_bytes({"f": number}))["f"]

    assert number == pytest.approx(read, rel=2**-52, abs=1e-77)
