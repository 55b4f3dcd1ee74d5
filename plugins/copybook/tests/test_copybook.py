"""A copybook describes the body of a message: its text forms, its refusals, its bytes, its errors, and its use as a codec."""

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from mqflow import App, Message, MessageDescriptor, MQIError
from mqflow.testing.kit import QueueManagerKit
from mqflow_copybook import Copybook, CopybookError, FieldError
from mqflow_copybook.command import command

CLAIM = """\
000100* A claim of the day
000200 01  CLAIM.                                                       CLAIM001
000300     05  CLAIM-NUMBER        PIC 9(5).                            CLAIM001
000400     05  HOLDER              PIC X(6) VALUE 'O''N.'.
000500         88  NO-HOLDER       VALUES ARE SPACES 'N/A'.
000600     05  AMOUNT              PIC S9(5)V99 COMP-3.
000700     05  FILLER              PIC X(2).
000800     05  LINE-COUNT          PIC S9(4) COMP.
000900     05  CLAIM-LINE OCCURS 0 TO 3 TIMES
001000             DEPENDING ON LINE-COUNT INDEXED BY LINE-INDEX.
001100         10  WORK            PIC X(3).
001200         10  PRICE           PIC S9(3)V99.
"""
BODY = bytes.fromhex("f0f0f0f0f7 d4fcd3d3c540 0001250d 4040 0001 c1c240 f0f0f3f0d0".replace(" ", ""))
VALUES = {
    "claim_number": 7,
    "holder": "MÜLLE",
    "amount": Decimal("-12.50"),
    "line_count": 1,
    "claim_line": [{"work": "AB", "price": Decimal("-3.00")}],
}


class ClaimLine(msgspec.Struct):
    work: str
    price: Decimal


class Claim(msgspec.Struct):
    claim_number: int
    holder: str
    amount: Decimal
    line_count: int
    claim_line: list[ClaimLine]


def one(clauses: str, **options: Any) -> Copybook:
    return Copybook(f"01 R. 05 F {clauses}.", **options)


def test_a_body_in_ebcdic_is_the_record_of_its_copybook_and_back() -> None:
    book = Copybook(CLAIM)

    assert VALUES == book.from_bytes(BODY)
    assert BODY == book.to_bytes(VALUES)


FREE = "01 R. *> a record\n05 F-1 pic x(2) value 'a. b', 05 F-2 PICTURE IS 9.\n05 CLASS PIC X. 05 2ND PIC X."
CONTINUED = (
    "       01  R.\n           05  F-1 PIC X(2) VALUE '"
    + "a" * 30
    + "\n      -    ' b'. 05 F-\n      -    2 PIC 9.\n      /    A PAGE\n           05 CLASS PIC X.\n           05 2ND PIC X.\n"
)


@pytest.mark.parametrize("text", [FREE.replace("', 05", "'. 05"), CONTINUED], ids=["free form", "columns 7 to 72"])
def test_a_copybook_can_have_both_forms(text: str) -> None:
    assert ("f_1", "f_2", "class_", "n2nd") == Copybook(text).type.__struct_fields__


def test_the_caller_can_say_the_form() -> None:
    text = " " * 7 + "01 R. 05 A PIC X." + " " * 50 + "05 B PIC X.\n"

    assert ("a",) == Copybook(text).type.__struct_fields__
    assert ("a", "b") == Copybook(text, free=True).type.__struct_fields__


def test_a_copybook_without_level_01_is_one_record() -> None:
    assert ("a", "b") == Copybook("05 A PIC X. 05 B. 10 C PIC X.").type.__struct_fields__


def test_one_of_several_records_is_chosen_by_name() -> None:
    text = "01 HEAD. 05 A PIC X. 01 DETAIL. 05 B PIC X."

    assert ("b",) == Copybook(text, record="DETAIL").type.__struct_fields__
    with pytest.raises(CopybookError, match="the records HEAD, DETAIL: name one of them with record="):
        Copybook(text)


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ("05 A PIC ZZ9.99.", r"PIC ZZ9\.99 is edited, national or unknown"),
        ("05 A PIC N(4).", r"PIC N\(4\) is edited, national or unknown"),
        ("05 A PIC 9V9V9.", "PIC 9V9V9 is no number"),
        ("05 A PIC S.", "PIC S is no number"),
        ("05 A PIC 9(32).", "has 32 digits, and USAGE DISPLAY takes at most 31"),
        ("05 A PIC 9(19) COMP.", "has 19 digits, and USAGE COMP takes at most 18"),
        ("05 A PIC 9(999).", "has more than 31 digits"),
        ("05 A PIC X COMP-3.", "is text, and text has"),
        ("05 A PIC 9 JUSTIFIED.", "JUSTIFIED is for text only"),
        ("05 A PIC 9 COMP-1.", "USAGE COMP-1 has no picture"),
        ("05 A PIC 9 VALUE 0 COMP-6.", "COMP-6 is not supported; the USAGE can be BINARY, COMP"),
        ("05 A USAGE POINTER.", "POINTER is not supported"),
        ("05 A PIC S9(4) COMP SYNC.", "SYNC is not supported"),
        ("05 A PIC 99 BLANK WHEN ZERO.", "BLANK is not supported"),
        ("05 A.", "it has no PIC, and no items below it"),
        ("05 A PIC X. 10 B PIC X.", "an item with a picture has no items below it"),
        ("05 A. 10 B PIC X. 07 C PIC X.", "level 10 was expected, as of the item before it"),
        ("05 A PIC X. 05 A PIC X.", "two items with the name a; rename one"),
        ("05 A PIC X OCCURS 0 TO 3.", "OCCURS a TO b and DEPENDING ON belong together"),
        ("05 A PIC X OCCURS 0 TO 3 DEPENDING ON N.", "names no earlier integer"),
        ("05 T OCCURS 2. 10 N PIC 9. 05 A PIC X OCCURS 0 TO 3 DEPENDING ON N.", "names no earlier integer"),
        ("05 A PIC X OCCURS X.", "the clause OCCURS is incomplete or wrong"),
        ("05 A PIC X OCCURS 3 TO 2 DEPENDING ON N.", "the clause OCCURS is incomplete or wrong"),
        ("05 A PIC X. 05 B REDEFINES C PIC X.", "REDEFINES C must follow that item"),
        ("05 A PIC X. 05 B REDEFINES A PIC X(2).", "it has 2 bytes and A has 1; a redefinition is not longer"),
        ("05 A PIC X. 05 B REDEFINES A PIC X.", "a is redefined. Say which description a message has"),
        ("COPY OTHER.", "COPY is not carried out here; put the text of that copybook in its place"),
        ("EXEC SQL.", "a level number was expected"),
        ("05 A PIC X", "the period at its end is missing"),
        ("05 A PIC X VALUE 'A.", "the literal does not end on this line"),
        ("01 B PIC X.", "a record has items below it"),
    ],
)
def test_a_statement_that_cannot_be_used_is_named_with_the_reason(items: str, why: str) -> None:
    with pytest.raises(CopybookError, match=rf"^Line [12] of the copybook, ['\"].*['\"]: .*{why}"):
        Copybook(f"01 R. 05 FIRST-ITEM PIC X.\n{items}", record="R")


def test_a_copybook_without_an_item_is_refused() -> None:
    with pytest.raises(CopybookError, match="has no data item"):
        Copybook("      * nothing\n")


@pytest.mark.parametrize(
    ("clauses", "options", "value", "body"),
    [
        ("PIC S9(3)", {}, -120, "f1f2d0"),
        ("PIC S9(3)", {}, 120, "f1f2c0"),
        ("PIC 9(3)", {}, 120, "f1f2f0"),
        ("PIC S9(3) LEADING", {}, -120, "d1f2f0"),
        ("PIC S9(3) LEADING SEPARATE", {}, -120, "60f1f2f0"),
        ("PIC S9(3)", {"ccsid": 819}, -120, "313270"),
        ("PIC S9(4) COMP-3", {}, -1, "00001d"),
        ("PIC 9(4) COMP-3", {}, 1, "00001f"),
        ("PIC S9(4) COMP", {"encoding": 546}, -2, "fffe"),
        ("PIC S9(4) COMP-5", {"encoding": 546}, -2, "feff"),
        ("PIC S9(4) COMP-5", {"encoding": 273}, -2, "fffe"),
        ("COMP-1", {}, 1.0, "41100000"),
        ("COMP-1", {}, -118.625, "c276a000"),
        ("COMP-2", {}, 0.15625, "4028000000000000"),
        ("COMP-2", {}, 0.0, "0000000000000000"),
        ("COMP-1", {"encoding": 273}, 1.5, "3fc00000"),
        ("COMP-1", {"encoding": 546}, 1.5, "0000c03f"),
        ("PIC X(3)", {"ccsid": 273}, "Ä§", "4a7c40"),
        ("PIC X(3)", {"ccsid": 1140}, "€", "9f4040"),
        ("PIC X(3) JUSTIFIED RIGHT", {}, "Z", "4040e9"),
        ("JUST PIC A(4)", {}, "A ", "4040c140"),
        ("PIC X(3)", {"ccsid": 1208}, "ü", "c3bc20"),
        ("PIC X(3)", {"ccsid": 1252}, "€", "802020"),
        ("PIC 9(2)PP", {}, 1200, "f1f2"),
        ("PIC PP9(2)", {}, Decimal("0.0012"), "f1f2"),
        ("PIC 9(2)V", {}, 12, "f1f2"),
    ],
)
def test_a_value_has_the_bytes_of_its_picture(clauses: str, options: Mapping[str, int], value: object, body: str) -> None:
    book = one(clauses, **options)

    assert body == book.to_bytes({"f": value}).hex()
    assert {"f": value} == book.from_bytes(bytes.fromhex(body))


@pytest.mark.parametrize(
    ("clauses", "body", "value"),
    [
        ("PIC S9(2)", "f1f2", 12),
        ("PIC S9(2)", "f1b2", -12),
        ("PIC 9(2)", "f1c2", 12),
        ("PIC S9(3) COMP-3", "123f", 123),
        ("PIC S9(3) COMP-3", "123b", -123),
        ("PIC S9(4) COMP", "7fff", 32767),
    ],
)
def test_other_spellings_of_a_number_are_read(clauses: str, body: str, value: int) -> None:
    assert {"f": value} == one(clauses).from_bytes(bytes.fromhex(body))


@pytest.mark.parametrize(("clause", "body"), [("COMP-3", "012d"), ("SIGN LEADING SEPARATE", "60f1f2"), ("BINARY", "fff4")])
def test_the_clause_of_a_group_holds_for_its_items(clause: str, body: str) -> None:
    book = Copybook(f"01 R. 05 G {clause}. 10 F PIC S99. 10 T PIC X USAGE DISPLAY.")

    assert f"{body}e9" == book.to_bytes({"g": {"f": -12, "t": "Z"}}).hex()


def test_a_sign_that_was_converted_to_ascii_as_text_is_read() -> None:
    assert [{"f": -10}, {"f": -12}, {"f": 12}] == [one("PIC S99", ccsid=819).from_bytes(body) for body in (b"1}", b"1K", b"1B")]


@pytest.mark.parametrize(
    ("clauses", "body", "problem"),
    [
        ("PIC 9(3)", "404040", "the byte with the sign has no digit. Bytes: 40 40 40."),
        ("PIC 9(3)", "40f1f2", "some are no digits"),
        ("PIC 9(3)", "faf1f2", "some are no digits"),
        ("PIC 9(2)", "f1d2", "the number is negative, and the picture has no S"),
        ("PIC S9(2) LEADING SEPARATE", "f0f1f2", "the sign is neither + nor -"),
        ("PIC S9(3) COMP-3", "1230", "these bytes are no packed number"),
        ("PIC S9(3) COMP-3", "4040", "these bytes are no packed number"),
        ("PIC S9(2) COMP-3", "123c", "more digits than the picture, which has 2"),
        ("PIC 9(4)", "f1f2", "the body ends at offset 2, and this item ends at 4"),
    ],
)
def test_bytes_that_are_no_value_are_named_with_their_item(clauses: str, body: str, problem: str) -> None:
    with pytest.raises(FieldError) as caught:
        one(clauses).from_bytes(bytes.fromhex(body))

    assert str(caught.value).startswith(f"f (F {clauses.partition(' LEAD')[0]}) at offset 0: ")
    assert problem in str(caught.value)


def test_the_error_of_an_item_in_a_table_has_its_path_and_offset() -> None:
    with pytest.raises(FieldError, match=r"claim_line\.0\.price \(PRICE PIC S9\(3\)V99\) at offset 22: ") as caught:
        Copybook(CLAIM).from_bytes(BODY[:-1] + b"\x00")

    assert ("claim_line.0.price", 22) == (caught.value.path, caught.value.offset)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"claim_number": 123456}, r"claim_number \(CLAIM-NUMBER PIC 9\(5\)\) at offset 0: 123456 has more digits"),
        ({"claim_number": -1}, "-1 is negative, and the picture has no S"),
        ({"claim_number": Decimal("1.5")}, "1.5 has digits that the picture has no place for"),
        ({"claim_number": True}, "it takes an int or a Decimal, and got a bool"),
        ({"amount": 1.5}, "it takes an int or a Decimal, and got a float"),
        ({"amount": Decimal("NaN")}, "NaN has digits"),
        ({"amount": Decimal("0.001")}, "0.001 has digits that the picture has no place for"),
        ({"holder": "MUELLER"}, "the text has 7 bytes, and the item has 6"),
        ({"holder": "\u0416"}, r"CCSID 37 has no U\+0416"),
        ({"holder": 7}, "it takes a str, and got a int"),
        ({"holder": None}, "the record has no value for it"),
        ({"line_count": 2}, "line_count is 2, and the list has 1"),
        ({"line_count": 4}, "line_count is 4, and the table has 0 to 3 entries"),
        ({"line_count": 40000}, "40000 has more digits than the picture, which has 4; COMP-5 takes the whole range"),
        ({"claim_line": "AB"}, "it takes a list, and got a str"),
        ({"claim_line": ["AB"]}, "it takes a record, and got a str"),
        ({"claim_number_": 1}, "the copybook has no claim_number_ here"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(change: Mapping[str, object], error: str) -> None:
    with pytest.raises(FieldError, match=error):
        Copybook(CLAIM).to_bytes({**VALUES, **change})


@pytest.mark.parametrize(("encoding", "number"), [(785, 8e75), (273, 4e38), (546, 4e38)])
def test_a_float_that_does_not_fit_is_refused(encoding: int, number: float) -> None:
    with pytest.raises(FieldError, match="does not fit into 4 bytes"):
        one("COMP-1", encoding=encoding).to_bytes({"f": number})


@pytest.mark.parametrize("number", [10**400, -(10**400), pytest.param(10**5_000, id="5001 digits")])
@pytest.mark.parametrize("encoding", [785, 273, 546])
@pytest.mark.parametrize("usage", ["COMP-1", "COMP-2"])
def test_an_integer_that_no_float_can_hold_is_refused(usage: str, encoding: int, number: int) -> None:
    with pytest.raises(FieldError, match=r"F .*the number does not fit into [48] bytes"):
        one(usage, encoding=encoding).to_bytes({"f": number})


def test_a_count_beyond_its_table_is_refused() -> None:
    with pytest.raises(FieldError, match="line_count is 4, and the table has 0 to 3 entries"):
        Copybook(CLAIM).from_bytes(BODY.replace(b"\x00\x01\xc1", b"\x00\x04\xc1"))


def test_a_longer_body_is_refused_if_the_caller_does_not_permit_it() -> None:
    with pytest.raises(ValueError, match="CLAIM ends at offset 27, and the body has 28 bytes"):
        Copybook(CLAIM).from_bytes(BODY + b"\x00")

    assert VALUES == Copybook(CLAIM, longer=True).from_bytes(BODY + b"\x00")


@pytest.mark.parametrize(("ccsid", "error"), [(1200, ValueError), (99999, MQIError)])
def test_a_character_set_that_no_record_can_have_is_refused(ccsid: int, error: type[Exception]) -> None:
    with pytest.raises(error, match=str(ccsid)):
        Copybook(CLAIM, ccsid=ccsid)


PAYMENT = """
01 PAYMENT.
   05 KIND PIC X.
   05 ACCOUNT.
      10 IBAN PIC X(6).
   05 CARD REDEFINES ACCOUNT.
      10 CARD-NUMBER PIC 9(4).
   05 FILLER REDEFINES CARD.
      10 CHEQUE PIC X(2).
   05 AFTER-IT PIC X.
"""


def by_kind(values: Mapping[str, Any]) -> str:
    return {"A": "account", "C": "card", "Q": "filler_1"}.get(values["kind"], "nothing")


@pytest.mark.parametrize(
    ("record", "body"),
    [
        ({"kind": "A", "account": {"iban": "DE12"}, "after_it": "Z"}, "ADE12  Z"),
        ({"kind": "C", "card": {"card_number": 42}, "after_it": "Z"}, "C0042  Z"),
        ({"kind": "Q", "filler_1": {"cheque": "77"}, "after_it": "Z"}, "Q77    Z"),
    ],
)
def test_a_message_has_one_description_of_a_redefined_item(record: Mapping[str, Any], body: str) -> None:
    book = Copybook(PAYMENT, redefines={"account": by_kind}, ccsid=819)

    assert body.encode() == book.to_bytes(record)
    assert record == book.from_bytes(body.encode())
    assert body.encode() == book.to_bytes(msgspec.convert(record, book.type))


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (
            {"kind": "A", "card": {"card_number": 42}},
            "this message has account and none of its other descriptions; given: card",
        ),
        ({"kind": "A", "account": {"iban": ""}, "card": {"card_number": 42}}, "given: account, card"),
        ({"kind": "A"}, "given: none"),
        ({"kind": "X"}, "redefines chose 'nothing', and the items there are account, card, filler_1"),
    ],
)
def test_another_description_is_refused(record: Mapping[str, Any], error: str) -> None:
    with pytest.raises(FieldError, match=error):
        Copybook(PAYMENT, redefines={"account": by_kind}).to_bytes({**record, "after_it": "Z"})


def test_a_count_in_a_description_that_the_message_does_not_have_is_refused() -> None:
    text = "01 R. 05 A. 10 N PIC 9. 05 B REDEFINES A PIC X. 05 T PIC X OCCURS 0 TO 3 DEPENDING ON N."
    with_count, without = (Copybook(text, redefines={"a": key}, ccsid=819) for key in ("a", "b"))

    assert {"a": {"n": 1}, "t": ["X"]} == with_count.from_bytes(b"1X")
    with pytest.raises(FieldError, match="this message has no n, which has the number of entries"):
        without.from_bytes(b"1X")


def test_one_description_can_be_for_all_messages() -> None:
    book = Copybook(PAYMENT, redefines={"account": "card"}, ccsid=819)

    assert {"kind": "A", "card": {"card_number": 1}, "after_it": "Z"} == book.from_bytes(b"A0001  Z")


def test_the_descriptor_says_how_a_body_is_written_unless_the_caller_knows_better() -> None:
    german = Message(MessageDescriptor(format="", ccsid=273, encoding=546), one("PIC X", ccsid=273).to_bytes({"f": "Ä"}), "Q")

    assert {"f": "Ä"} == one("PIC X").decode(german, dict)
    assert {"f": "¢"} == one("PIC X", by_descriptor=False).decode(german, dict)


@pytest.mark.parametrize(
    ("floats", "problem"), [(0x400, "floats with the encoding 0x400 are not known here"), (0x100, "ends at offset 4")]
)
def test_floats_of_an_unknown_machine_are_refused(floats: int, problem: str) -> None:
    message = Message(MessageDescriptor(format="", ccsid=37, encoding=floats | 0x11), bytes(5), "Q")

    with pytest.raises(ValueError, match=problem):
        one("COMP-1").decode(message, dict)


@pytest.mark.mq_backend("asyncio", "trio")
async def test_a_handler_receives_the_record_and_its_reply_is_a_record(mq: QueueManagerKit) -> None:
    book, handled = Copybook(CLAIM), list[Claim]()
    app = App(codec=book)

    @app.listener("CLAIMS.IN")
    async def pay(claim: Claim) -> Claim:
        handled.append(claim)
        return claim

    mq.define("CLAIMS.IN", bothresh=1, boqname="CLAIMS.BOQ")
    mq.define("CLAIMS.BOQ")
    mq.define("REPLIES")
    async with mq.run(app):
        await app.put("CLAIMS.IN", msgspec.convert(VALUES, Claim), reply_to="REPLIES")
        [reply] = await mq.drain("REPLIES")
        await mq.put("CLAIMS.IN", BODY[:-1], ccsid=37, encoding=785)
        [failed] = await mq.drain("CLAIMS.BOQ")

    assert [msgspec.convert(VALUES, Claim)] == handled
    assert (BODY, "", 37, 785) == (reply.body, *(getattr(reply.descriptor, name) for name in ("format", "ccsid", "encoding")))
    assert BODY[:-1] == failed.body


def shown(tmp_path: Path, text: str, *options: str) -> str:
    (tmp_path / "claim.cpy").write_text(text)
    done = CliRunner().invoke(command, [str(tmp_path / "claim.cpy"), *options])
    return done.output


def test_the_command_shows_the_layout(tmp_path: Path) -> None:
    lines = shown(tmp_path, CLAIM + "           05  CLAIM-END PIC X.\n").splitlines()

    assert "offset  bytes" == lines[0]
    assert "    11      4  05 AMOUNT PIC S9(5)V99 COMP-3 Decimal" == lines[4]
    assert "    19      8  05 CLAIM-LINE 0 to 3 times ClaimLine" == lines[7]
    assert "   19+      1  05 CLAIM-END PIC X str" == lines[-1]


@pytest.mark.parametrize(("text", "body"), [(CLAIM, BODY), (PAYMENT, "C0001  Z".encode("cp037"))])
def test_the_command_writes_types_that_hold_the_records_of_the_copybook(tmp_path: Path, text: str, body: bytes) -> None:
    book, names = Copybook(text, redefines={"account": "card"}), dict[str, Any](__name__="types_of_a_copybook")

    exec(shown(tmp_path, text, "--types"), names)  # noqa: S102 - the source that the command wrote

    record = msgspec.convert(book.from_bytes(body), names[book.type.__name__])
    assert body == book.to_bytes(record)
    assert book.type.__struct_fields__ == record.__struct_fields__


@pytest.fixture
def readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """The files of the README by name, in the current folder."""
    page = (Path(__file__).parents[1] / "README.md").read_text()
    files = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL))
    monkeypatch.chdir(tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return files


@pytest.mark.mq_backend("asyncio")
async def test_the_application_of_the_readme_pays_a_claim(mq: QueueManagerKit, readme: Mapping[str, str]) -> None:
    names: dict[str, Any] = {"__name__": "readme"}
    exec(readme["app.py"], names)  # noqa: S102 - the text of our own README
    claim = {
        "claim_number": 7,
        "holder": "NN",
        "amount": Decimal(0),
        "line_count": 1,
        "claim_line": [{"work": "A", "price": Decimal(2)}],
    }
    mq.define("CLAIMS.IN")
    mq.define("CLAIMS.PAID")

    async with mq.run(names["app"]):
        await names["app"].put("CLAIMS.IN", claim, codec=names["CLAIM"])
        [paid] = await mq.drain("CLAIMS.PAID")

    assert {"claim": 7, "total": "2.00"} == paid.json()


def test_the_other_texts_of_the_readme_hold(readme: Mapping[str, str]) -> None:
    exec(readme["payments.py"], {})  # noqa: S102 - as above
    types = CliRunner().invoke(command, ["claim.cpy", "--types"]).output

    assert [line for line in types.split("Struct\n", 1)[1].splitlines() if line] == [
        line for line in readme["app.py"].split("Copybook\n", 1)[1].split("app =")[0].splitlines() if line
    ]


def test_the_command_names_the_file_of_a_copybook_that_it_refuses(tmp_path: Path) -> None:
    assert "claim.cpy: Line 1 of the copybook, '05 A PIC Z': PIC Z is edited" in shown(tmp_path, "05 A PIC Z.")
    (tmp_path / "old.cpy").write_bytes(b"      * Pr\xe4mie\n       05 A PIC X.")
    refused = CliRunner().invoke(command, [str(tmp_path / "old.cpy")])
    assert (1, True) == (refused.exit_code, "old.cpy is not UTF-8 (byte 0xe4 at 10). Save it as UTF-8." in refused.output)


def test_a_byte_order_mark_is_no_part_of_a_copybook(tmp_path: Path) -> None:
    assert shown(tmp_path, CLAIM) == shown(tmp_path, f"\ufeff{CLAIM}")
    assert Copybook(CLAIM).from_bytes(BODY) == Copybook.read(tmp_path / "claim.cpy").from_bytes(BODY)
