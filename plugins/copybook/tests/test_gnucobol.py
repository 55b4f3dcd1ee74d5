"""GnuCOBOL writes the bytes that we write, and reads from our bytes the values that we wrote."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import zip_longest
from typing import Any, NamedTuple

import pytest

from mqflow_copybook import Copybook

COBC = shutil.which("cobc")

pytestmark = pytest.mark.skipif(not COBC, reason="there is no cobc (GnuCOBOL)")

#: Picture and usage of an item, and the values that each side writes.
ITEMS: Sequence[tuple[str, Sequence[str]]] = (
    ("PIC X(5)", ["'AB C'", "'ABCDE'", "' X'"]),
    ("PIC A(3)", ["'abc'", "'Z'"]),
    ("PIC X(5) JUSTIFIED RIGHT", ["'AB C'", "'ABCDE'", "'X'"]),
    ("PIC 9", ["0", "9"]),
    ("PIC 9(5)", ["0", "99999", "1234"]),
    ("PIC S9(5)", ["0", "-1", "12345", "-12340"]),
    ("PIC S9(5) SIGN LEADING", ["7", "-7", "-50000"]),
    ("PIC S9(5) SIGN IS TRAILING SEPARATE CHARACTER", ["7", "-7"]),
    ("PIC S9(3)V99 LEADING SEPARATE", ["1.25", "-999.99", "0"]),
    ("PIC 9(3)V9(4)", ["1.25", "999.9999"]),
    ("PIC SV9(4)", ["-0.0001", "0.5"]),
    ("PIC 9(3)PP", ["12300", "0", "99900"]),
    ("PIC VPP99", ["0.0012", "0.0099"]),
    ("PIC S9(4) COMP", ["0", "-1", "9999", "-9999"]),
    ("PIC 9(4) BINARY", ["0", "9999"]),
    ("PIC S9(9) COMP-4", ["-999999999", "258"]),
    ("PIC S9(7)V99 COMPUTATIONAL", ["-1234567.89", "0.01"]),
    ("PIC S9(18) COMP", ["-999999999999999999", "1"]),
    ("PIC 9 COMP", ["7"]),
    ("PIC S9(4) COMP-5", ["-32768", "32767", "258"]),
    ("PIC 9(4) COMP-5", ["65535", "1"]),
    ("PIC 9(9) COMP-5", ["4294967295", "1"]),
    ("PIC S9(10) COMPUTATIONAL-5", ["-9876543210", "1"]),
    ("PIC S9(5) COMP-3", ["-12345", "0", "99"]),
    ("PIC S9(4) PACKED-DECIMAL", ["-1234", "9"]),
    ("PIC 9(7)V99 COMP-3", ["1234567.89", "0"]),
    ("PIC S9(15)V9(3) COMP-3", ["-123456789012345.678", "0.001"]),
    ("PIC S9(3)P(2) COMP", ["-12300", "100"]),
    ("COMP-1", ["1.5", "-0.015625", "0"]),
    ("COMP-2", ["1.5", "-1234567.0078125", "0"]),
)
ROWS = [*zip_longest(*(values for _, values in ITEMS))]
"""The values of each record; a shorter list is filled with its first value below."""

#: GnuCOBOL 3.1 writes wrong bytes for a redefinition and a table with DEPENDING ON in one record, so these are two records.
CLAIM = """
       01  CLAIM.
           05  ENTRY-COUNT PIC 9(2).
           05  ENTRIES OCCURS 0 TO 4 TIMES DEPENDING ON ENTRY-COUNT.
               10  CODE-1 PIC X(3).
               10  PRICE PIC S9(3)V99 COMP-3 OCCURS 2 TIMES.
           05  CLAIM-END PIC X(2).
"""
PAYMENT = """
       01  PAYMENT.
           05  KIND PIC X.
           05  ACCOUNT.
               10  IBAN PIC X(6).
               10  FILLER PIC X(2).
           05  CARD REDEFINES ACCOUNT.
               10  CARD-NUMBER PIC S9(7).
           05  PAYMENT-END PIC X(2).
"""
ENTRIES = [{"code_1": "ABC", "price": [Decimal(1), Decimal("-2.5")]}, {"code_1": "D", "price": [Decimal(0), Decimal(-7)]}]
TWO_ENTRIES = (
    "MOVE 2 TO ENTRY-COUNT MOVE 'ABC' TO CODE-1(1) MOVE 'D' TO CODE-1(2) MOVE 'Y' TO CLAIM-END "
    "MOVE 1 TO PRICE(1 1) MOVE -2.5 TO PRICE(1 2) MOVE 0 TO PRICE(2 1) MOVE -7 TO PRICE(2 2)"
)
#: The record, the statements that fill it after blanks, and its values.
RECORDS: Sequence[tuple[str, str, Mapping[str, Any]]] = (
    ("CLAIM", "MOVE 0 TO ENTRY-COUNT MOVE 'ZZ' TO CLAIM-END", {"entry_count": 0, "entries": [], "claim_end": "ZZ"}),
    (
        "CLAIM",
        TWO_ENTRIES,
        {"entry_count": 2, "entries": ENTRIES, "claim_end": "Y"},
    ),
    (
        "PAYMENT",
        "MOVE 'C' TO KIND MOVE -1234567 TO CARD-NUMBER MOVE 'E' TO PAYMENT-END",
        {"kind": "C", "card": {"card_number": -1234567}, "payment_end": "E"},
    ),
    (
        "PAYMENT",
        "MOVE 'A' TO KIND MOVE 'DE12' TO IBAN MOVE 'E' TO PAYMENT-END",
        {"kind": "A", "account": {"iban": "DE12"}, "payment_end": "E"},
    ),
)


def value_of(literal: str, form: str) -> str | float | Decimal:
    if literal.startswith("'"):
        return literal.strip("'")
    return float(literal) if form in {"COMP-1", "COMP-2"} else Decimal(literal)


def literals(row: Sequence[str | None]) -> list[str]:
    return [literal or values[0] for literal, (_, values) in zip(row, ITEMS, strict=True)]


def copybook_of_items() -> str:
    lines = [f"           05  F{number} {form}." for number, (form, _) in enumerate(ITEMS)]
    return "\n".join(["       01  ITEMS.", *lines]) + "\n"


def wrapped(moves: str) -> list[str]:
    return [f"MOVE {move}" for move in moves.removeprefix("MOVE ").split(" MOVE ")]


def program(size: int) -> str:
    """Return a program that writes each record to `theirs`, then reads the records in `ours` and displays their values."""
    steps = ["OPEN OUTPUT OUT-FILE", "OPEN INPUT IN-FILE"]
    for row in ROWS:
        steps += [f"MOVE {literal} TO F{number}" for number, literal in enumerate(literals(row))]
        steps += ["WRITE OUT-RECORD FROM ITEMS", "READ IN-FILE INTO ITEMS"]
        for number, (form, values) in enumerate(ITEMS):
            shown_as_it_is = values[0].startswith("'") or form in {"COMP-1", "COMP-2"}
            steps += [f"DISPLAY F{number}"] if shown_as_it_is else [f"MOVE F{number} TO SHOWN", "DISPLAY SHOWN"]
    for name, moves, _ in RECORDS:
        shown = [f"DISPLAY {name}-END", f"DISPLAY FUNCTION LENGTH({name})"]
        steps += [
            f"MOVE SPACES TO {name}",
            *wrapped(moves),
            f"WRITE OUT-RECORD FROM {name}",
            f"READ IN-FILE INTO {name}",
            *shown,
        ]
    steps += ["CLOSE OUT-FILE", "CLOSE IN-FILE", "STOP RUN"]
    return f"""       IDENTIFICATION DIVISION.
       PROGRAM-ID. JUDGE.
       ENVIRONMENT DIVISION.
       INPUT-OUTPUT SECTION.
       FILE-CONTROL.
           SELECT OUT-FILE ASSIGN TO "theirs" ORGANIZATION SEQUENTIAL.
           SELECT IN-FILE ASSIGN TO "ours" ORGANIZATION SEQUENTIAL.
       DATA DIVISION.
       FILE SECTION.
       FD  OUT-FILE.
       01  OUT-RECORD PIC X({size}).
       FD  IN-FILE.
       01  IN-RECORD PIC X({size}).
       WORKING-STORAGE SECTION.
       01  SHOWN PIC -(18)9.9(9).
{copybook_of_items()}{CLAIM}{PAYMENT}
       PROCEDURE DIVISION.
""" + "".join(f"           {step}.\n" for step in steps)


class Judged(NamedTuple):
    """The records of both sides, and the lines that the program displayed."""

    ours: Sequence[bytes]
    theirs: Sequence[bytes]
    shown: Sequence[str]


@pytest.fixture(scope="module")
def items() -> Copybook:
    return Copybook(copybook_of_items(), ccsid=819, encoding=546)


@pytest.fixture(scope="module")
def records() -> Mapping[str, Copybook]:
    by_kind = {"account": lambda read: {"C": "card", "A": "account"}[read["kind"]]}
    options: Any = {"ccsid": 819, "encoding": 546, "redefines": by_kind}
    return {"CLAIM": Copybook(CLAIM, **options), "PAYMENT": Copybook(PAYMENT, **options)}


@pytest.fixture(scope="module")
def judged(items: Copybook, records: Mapping[str, Copybook], tmp_path_factory: pytest.TempPathFactory) -> Judged:
    folder, size = tmp_path_factory.mktemp("judge"), items.record.size
    payloads = [{f"f{n}": value_of(each, ITEMS[n][0]) for n, each in enumerate(literals(row))} for row in ROWS]
    ours = [*map(items.to_bytes, payloads), *(records[name].to_bytes(values) for name, _, values in RECORDS)]
    (folder / "ours").write_bytes(b"".join(body.ljust(size) for body in ours))
    (folder / "judge.cob").write_text(program(size))
    compiler = [str(COBC), "-x", "-O0", "-std=ibm", "-fodoslide", "judge.cob"]
    subprocess.run(compiler, cwd=folder, check=True, timeout=60)  # noqa: S603 - the compiler of this machine
    done = subprocess.run(["./judge"], cwd=folder, check=True, timeout=60, capture_output=True, text=True)
    written = (folder / "theirs").read_bytes()
    theirs = [written[start : start + size] for start in range(0, len(written), size)]
    return Judged(ours, theirs, done.stdout.splitlines())


def test_both_write_the_same_bytes_for_each_picture(items: Copybook, judged: Judged) -> None:
    differences = []
    for row, our, their in zip(ROWS, judged.ours[: len(ROWS)], judged.theirs[: len(ROWS)], strict=True):
        offset = 0
        for (item,), literal in zip(items.record.regions, literals(row), strict=True):
            ends = offset + item.size
            if our[offset:ends] != their[offset:ends]:
                differences.append(f"{item} {literal}: {our[offset:ends].hex()}, and not {their[offset:ends].hex()}")
            offset = ends

    assert [] == differences


def test_we_read_the_values_that_the_program_wrote(items: Copybook, judged: Judged) -> None:
    for row, their in zip(ROWS, judged.theirs[: len(ROWS)], strict=True):
        read = items.from_bytes(their)

        assert [value_of(each, ITEMS[n][0]) for n, each in enumerate(literals(row))] == [*read.values()]


def test_the_program_reads_the_values_that_we_wrote(judged: Judged) -> None:
    forms = [form for form, _ in ITEMS] * len(ROWS)
    wanted = [value_of(each, ITEMS[n][0]) for row in ROWS for n, each in enumerate(literals(row))]

    for form, value, shown in zip(forms, wanted, judged.shown[: len(wanted)], strict=True):
        text = shown.lstrip() if "JUSTIFIED" in form else shown.rstrip()
        assert value == (text if isinstance(value, str) else Decimal(shown))


def test_both_write_the_same_table_and_the_same_redefinition(records: Mapping[str, Copybook], judged: Judged) -> None:
    shown = zip(*[iter(judged.shown[-2 * len(RECORDS) :])] * 2, strict=True)
    sides = zip(judged.ours[-len(RECORDS) :], judged.theirs[-len(RECORDS) :], shown, strict=True)

    for (name, _, values), (our, their, (last, length)) in zip(RECORDS, sides, strict=True):
        assert our == their[: len(our)]
        assert values == records[name].from_bytes(our)
        assert (values[f"{name.lower()}_end"], len(our)) == (last.rstrip(), int(length))
