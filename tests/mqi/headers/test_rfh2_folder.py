"""One folder is read from markup to typed properties, and written back to markup."""

import math
import re
from enum import Enum, StrEnum

import pytest
from hypothesis import given
from msgspec.structs import replace

from mqflow.mqi.errors import HeaderError
from mqflow.mqi.headers.rfh2_folder import (
    DEPTH_MAX,
    NAME_BYTES_MAX,
    Folder,
    FolderProperty,
    PropertyValue,
    folder_text,
    read_folder,
)
from mqflow.mqi.reason_codes import Reason
from tests.mqi.strategies import folders

#: Element, value, type. dt= and xsi:nil as in "Mapping JMS messages onto IBM MQ messages".
TYPES = [
    pytest.param("<p>text</p>", "text", "string", id="a string by default"),
    pytest.param("<p dt='string'>text</p>", "text", "string", id="string"),
    pytest.param("<p> two  blanks </p>", " two  blanks ", "string", id="blanks belong to a string"),
    pytest.param("<p></p>", "", "string", id="empty"),
    pytest.param("<p/>", "", "string", id="empty, short form"),
    pytest.param("<p dt='boolean'>1</p>", True, "boolean", id="true is 1"),
    pytest.param("<p dt='boolean'>0</p>", False, "boolean", id="false is 0"),
    pytest.param("<p dt='boolean'>TRUE</p>", True, "boolean", id="or a word"),
    pytest.param("<p dt='i1'>-128</p>", -128, "i1", id="i1"),
    pytest.param("<p dt='i2'>32767</p>", 32767, "i2", id="i2"),
    pytest.param("<p dt='i4'>+5</p>", 5, "i4", id="i4"),
    pytest.param("<p dt='i8'>-9223372036854775808</p>", -(2**63), "i8", id="i8"),
    pytest.param("<p dt='int'> 7 </p>", 7, "int", id="int, blanks around a number"),
    pytest.param("<p dt='r4'>1.5</p>", 1.5, "r4", id="r4"),
    pytest.param("<p dt='r8'>1.0E-5</p>", 1e-5, "r8", id="r8"),
    pytest.param("<p dt='r8'>-Infinity</p>", -math.inf, "r8", id="r8 as Java writes it"),
    pytest.param("<p dt='bin.hex'>00fFA0</p>", b"\x00\xff\xa0", "bin.hex", id="bin.hex"),
    pytest.param("<p dt='bin.hex'></p>", b"", "bin.hex", id="no bytes"),
    pytest.param("<p xsi:nil='true'></p>", None, "string", id="null"),
    pytest.param('<p dt="i4" xsi:nil="true"/>', None, "i4", id="null of a type"),
    pytest.param("<p xsi:nil='false'>x</p>", "x", "string", id="not null"),
    pytest.param("<p xsi:nil='perhaps'>x</p>", "x", "string", id="not null either"),
    pytest.param("<p dt='uri'>a:b</p>", "a:b", "uri", id="a type unknown here is text"),
    pytest.param("<p>&lt;&amp;&gt;&quot;&apos;&#65;&#x20AC;</p>", "<&>\"'A€", "string", id="references"),
]


@pytest.mark.parametrize(("element", "value", "kind"), TYPES)
def test_an_element_is_a_property_of_its_type(element: str, value: PropertyValue, kind: str) -> None:
    [read] = read_folder(f"<usr>{element}</usr>").properties

    assert FolderProperty("p", value, kind) == read
    assert type(value) is type(read.value)


@pytest.mark.parametrize(
    ("value", "kind", "element"),
    [
        ("a<b", "string", "<p>a&lt;b</p>"),
        (True, "boolean", "<p dt='boolean'>1</p>"),
        (5, "i4", "<p dt='i4'>5</p>"),
        (2**31, "i8", "<p dt='i8'>2147483648</p>"),
        (0.5, "r8", "<p dt='r8'>0.5</p>"),
        (-math.inf, "r8", "<p dt='r8'>-Infinity</p>"),
        (math.nan, "r8", "<p dt='r8'>NaN</p>"),
        (b"\x0a", "bin.hex", "<p dt='bin.hex'>0a</p>"),
        (None, "string", "<p xsi:nil='true'></p>"),
    ],
)
def test_a_value_has_a_type_of_its_own_and_is_written_by_it(value: PropertyValue, kind: str, element: str) -> None:
    item = FolderProperty("p", value)

    assert kind == item.type
    assert f"<usr>{element}</usr>" == folder_text(Folder("usr", (item,)))


class _Colour(StrEnum):
    RED = "r&d"


class _Rate(float, Enum):
    LOW = 0.5


@pytest.mark.parametrize(
    ("member", "element"),
    [(_Colour.RED, "<p>r&amp;d</p>"), (Reason.Q_FULL, "<p dt='i4'>2053</p>"), (_Rate.LOW, "<p dt='r8'>0.5</p>")],
)
def test_a_member_of_an_enum_is_written_as_its_value(member: PropertyValue, element: str) -> None:
    assert f"<usr>{element}</usr>" == folder_text(Folder("usr", (FolderProperty("p", member),)))


@given(folders)
def test_any_folder_survives_its_text(folder: Folder) -> None:
    read = read_folder(folder_text(folder))

    assert folder == replace(read, raw="")


@given(folders)
def test_a_parsed_folder_is_written_unchanged(folder: Folder) -> None:
    raw = f"  {folder_text(folder)}\n "

    assert raw == folder_text(read_folder(raw))


def test_a_parsed_folder_with_a_float_that_is_no_number_is_written_unchanged() -> None:
    raw = "<usr><g copy='all'><a dt='r8'>NaN</a></g></usr>"

    assert raw == folder_text(read_folder(raw))


def test_a_changed_folder_is_written_again() -> None:
    read = read_folder("<usr><a>old</a></usr>  ")

    changed = replace(read, properties=(FolderProperty("a", "new"),))

    assert "<usr><a>new</a></usr>" == folder_text(changed)


def test_a_repeated_element_is_a_repeated_property() -> None:
    read = read_folder("<usr><a>1</a><b>2</b><a>3</a></usr>")

    assert [("a", "1"), ("b", "2"), ("a", "3")] == [(item.name, item.value) for item in read.properties]


def test_an_element_inside_an_element_is_a_property_with_a_dot() -> None:
    read = read_folder("<usr><order><id dt='i4'>7</id><lines><count>2</count></lines><due>3</due></order><x>1</x></usr>")

    assert [("order.id", 7), ("order.lines.count", "2"), ("order.due", "3"), ("x", "1")] == [
        (item.name, item.value) for item in read.properties
    ]


def test_a_property_with_dots_is_written_inside_its_groups_and_neighbours_share_them() -> None:
    folder = Folder(
        "usr",
        (FolderProperty("a.b", "1"), FolderProperty("a.c.d", "2"), FolderProperty("a.c.e", "3"), FolderProperty("f", "4")),
    )

    assert "<usr><a><b>1</b><c><d>2</d><e>3</e></c></a><f>4</f></usr>" == folder_text(folder)


def test_the_other_attributes_of_a_property_and_of_the_folder_stay() -> None:
    read = read_folder("<mine content='properties'><p context='user' dt='i4' copy='forward,reply'>1</p></mine>")

    assert (("content", "properties"),) == read.attributes
    assert (("context", "user"), ("copy", "forward,reply")) == read.properties[0].attributes
    assert "<mine content='properties'><p dt='i4' context='user' copy='forward,reply'>1</p></mine>" == folder_text(
        replace(read, raw="")
    )


def test_blanks_and_line_ends_between_elements_say_nothing() -> None:
    read = read_folder("<usr>\n  <a>1</a>\n\t<b>2</b>\r\n</usr>\0\0")

    assert [("a", "1"), ("b", "2")] == [(item.name, item.value) for item in read.properties]


@pytest.mark.parametrize("raw", ["<xml>text</xml>", "<doc>text<a>1</a> more</doc>"])
def test_a_folder_with_text_between_its_elements_has_no_properties_and_stays_as_it_is(raw: str) -> None:
    read = read_folder(raw)

    assert () == read.properties
    assert raw == folder_text(read)


@pytest.mark.parametrize("raw", ["", "    ", "\0\0\0\0"])
def test_padding_alone_is_a_folder_without_a_name(raw: str) -> None:
    assert Folder("", raw=raw) == read_folder(raw)
    assert raw == folder_text(read_folder(raw))


@pytest.mark.parametrize("raw", ["<usr/>", "<usr></usr>", "<usr />", "<usr a='1' />"])
def test_an_empty_folder_has_its_name(raw: str) -> None:
    assert ("usr", ()) == (read_folder(raw).name, read_folder(raw).properties)


#: The malformed text, and a part of the error.
NOT_WELL_FORMED = [
    pytest.param("usr", "does not start with", id="no element"),
    pytest.param("</usr>", "does not start with", id="an end without a start"),
    pytest.param("<usr", "does not start with", id="half a tag"),
    pytest.param("<usr>", "ends inside <usr>", id="no end"),
    pytest.param("<usr><a>1</a>", "ends inside <usr>", id="no end after a property"),
    pytest.param("<usr>text", "ends inside <usr>", id="no end after text"),
    pytest.param("<usr><a>1</b></usr>", "</b> closes", id="another end"),
    pytest.param("<usr><a><b>1</a></b></usr>", "</a> closes", id="crossed"),
    pytest.param("<usr></usr a='1'>", "</usr> closes", id="an attribute at the end"),
    pytest.param("<usr></usr><jms></jms>", "one NameValueData is one folder", id="two folders"),
    pytest.param("<usr></usr>x", "more after the end of <usr>", id="more after the end"),
    pytest.param("<usr/>x", "more after the end of <usr>", id="more after the short form"),
    pytest.param("<usr><></usr>", "At character 5, inside <usr>", id="no name"),
    pytest.param("<usr><a b='1>1</a></usr>", "At character 5, inside <usr>", id="an open quote"),
    pytest.param("<usr><a b>1</a></usr>", "attributes of <a>", id="an attribute without a value"),
    pytest.param("<usr><a b=1>1</a></usr>", "attributes of <a>", id="a value without quotes"),
    pytest.param("<usr b><a>1</a></usr>", "attributes of <usr>", id="an attribute of the folder without a value"),
    pytest.param("<usr><a>1&</a></usr>", "'&' at offset 1", id="a bare ampersand"),
    pytest.param("<usr><a>&copy;</a></usr>", "'&' at offset 0", id="an entity that XML does not have"),
    pytest.param("<usr><a>&#0;</a></usr>", "'&' at offset 0", id="character 0"),
    pytest.param("<usr><a>&#xD800;</a></usr>", "'&' at offset 0", id="the first surrogate"),
    pytest.param("<usr><a>&#xDFFF;</a></usr>", "'&' at offset 0", id="the last surrogate"),
    pytest.param("<usr><a>&#x110000;</a></usr>", "'&' at offset 0", id="beyond Unicode"),
    pytest.param("<usr><a b='&x;'>1</a></usr>", "'&' at offset 0", id="an unknown entity in an attribute"),
    pytest.param("<u>" + "<g>" * 31 + "<a/>" + "</g>" * 31 + "</u>", "deeper than 32", id="one element too deep"),
    pytest.param("<u>" + "<a/>" * 1_001 + "</u>", "more than 1000 properties", id="one property too many"),
]


@pytest.mark.parametrize(("raw", "said"), NOT_WELL_FORMED)
def test_text_that_is_not_one_well_formed_element_is_refused(raw: str, said: str) -> None:
    with pytest.raises(HeaderError, match=rf"MQRC_RFH_STRING_ERROR \(2335\)\..*{re.escape(said)}"):
        read_folder(raw)


@pytest.mark.parametrize(
    ("reference", "character"), [("&#1;", "\x01"), ("&#xD7FF;", "\ud7ff"), ("&#xE000;", "\ue000"), ("&#1114111;", "\U0010ffff")]
)
def test_a_reference_may_be_to_every_other_character(reference: str, character: str) -> None:
    assert character == read_folder(f"<usr><a>{reference}</a></usr>").properties[0].value


def test_a_number_may_have_400_digits_and_no_more() -> None:
    assert 0.1 == read_folder(f"<u><a dt='r8'>0.1{'0' * 397}</a></u>").properties[0].value
    with pytest.raises(HeaderError, match="401 characters long"):
        read_folder(f"<u><a dt='r8'>0.1{'0' * 398}</a></u>")


def test_a_name_may_have_as_many_parts_as_can_be_read_again() -> None:
    deepest = Folder("u", (FolderProperty(".".join("a" * (DEPTH_MAX - 1)), "1"),))

    assert deepest.properties == read_folder(folder_text(deepest)).properties
    with pytest.raises(HeaderError, match="more than 31 parts"):
        folder_text(Folder("u", (FolderProperty(".".join("a" * DEPTH_MAX), "1"),)))


@pytest.mark.parametrize(
    ("kind", "content"),
    [("i1", "128"), ("i2", "-32769"), ("i4", "2147483648"), ("i8", "9223372036854775808"), ("i4", ""), ("i4", "1_000"),
     ("i4", "٣"), ("i4", "1.0"), ("i8", "9" * 5_000), ("r8", "1_0.5"), ("r8", "one"), ("r8", "0." + "0" * 500),
     ("boolean", "2"), ("bin.hex", "0"), ("bin.hex", "xy")],
)  # fmt: skip
def test_a_value_that_is_not_of_its_type_is_refused_by_name(kind: str, content: str) -> None:
    with pytest.raises(HeaderError, match=r"\(2335\).*The value of group\.total"):
        read_folder(f"<usr><group><total dt='{kind}'>{content}</total></group></usr>")


@pytest.mark.parametrize(
    "name",
    ["", "a b", "a<b", "a>b", "a/b", "a=b", "a'b", "a..b", ".a", "!a", "?a", "a." * DEPTH_MAX + "a", "ü" * NAME_BYTES_MAX],
)
def test_a_name_that_no_element_can_have_is_not_written(name: str) -> None:
    with pytest.raises(HeaderError, match=r"\(2335\)"):
        folder_text(Folder("usr", (FolderProperty(name, "x"),)))


@pytest.mark.parametrize(
    ("value", "kind"),
    [("x", "i4"), (300, "i1"), (2**63, "i8"), (True, "i4"), (1, "boolean"), (1, "r8"), ("00", "bin.hex"), (1, "string")],
)
def test_a_value_that_does_not_fit_its_type_is_not_written(value: PropertyValue, kind: str) -> None:
    with pytest.raises(HeaderError, match=r"\(2335\).*does not fit its type"):
        folder_text(Folder("usr", (FolderProperty("p", value, kind),)))


@pytest.mark.parametrize("character", ["\0", "\x0b", "\x1f", "\ud800", "\ufffe"])
def test_a_character_that_xml_does_not_have_is_not_written(character: str) -> None:
    with pytest.raises(HeaderError, match=r"\(2335\).*bin\.hex"):
        folder_text(Folder("usr", (FolderProperty("p", f"a{character}b"),)))
