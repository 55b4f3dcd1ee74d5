"""Properties in a message: written to an MQRFH2 and read from it, and the properties that a get shows by PROPCTL."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers import rfh2
from mqflow.mqi.headers.chain import join, split
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.mqi.headers.rfh2 import RFH2, Folder, FolderProperty
from mqflow.mqi.options import Encoding, Format
from mqflow.mqi.properties.rfh2_properties import (
    Parted,
    PropertyControl,
    from_header,
    part,
    projected,
    to_header,
    with_properties,
)
from mqflow.mqi.properties.set import Copy, MessageProperty, PropertyType, PropertyValue, Support
from mqflow.mqi.reason_codes import Reason
from tests.conformance.under_test import refused
from tests.mqi.strategies import property_values

TEXT = MessageDescriptor(format=Format.STRING, ccsid=1208)


def text(name: str, value: str = "blue", **pd: int) -> MessageProperty:
    return MessageProperty(name=name, type=PropertyType.STRING, value=value, **pd)


names = st.builds(
    "{}.{}".format,
    st.sampled_from(["usr", "mq_usr", "own", "jms"]),
    st.from_regex(r"[A-Za-z][A-Za-z0-9.]{0,5}[a-z]", fullmatch=True),
)
properties = st.dictionaries(
    names.filter(lambda name: ".." not in name),
    st.tuples(property_values(), st.integers(0, 31).filter(lambda bits: not bits & Copy.ALL), st.integers(0, 1)),
    min_size=1,
    max_size=5,
)


@given(properties, st.binary(max_size=60), st.sampled_from([Encoding.NATIVE, Encoding.NORMAL]))
def test_properties_and_data_are_the_same_in_a_message_and_out_of_it(
    given_properties: dict[str, tuple[tuple[PropertyType, PropertyValue], int, int]], body: bytes, encoding: int
) -> None:
    given_ones = {
        name: MessageProperty(name=name, type=kind, value=value, copy_options=bits, context=context)
        for name, ((kind, value), bits, context) in given_properties.items()
    }
    descriptor = MessageDescriptor(format=Format.STRING, ccsid=819, encoding=encoding)

    framed_descriptor, framed = with_properties(descriptor, body, tuple(given_ones.values()))
    parted = part(framed_descriptor, framed)

    assert Format.RF_HEADER_2 == framed_descriptor.format
    assert (descriptor, body, given_ones) == (parted.descriptor, parted.body, {each.name: each for each in parted.properties})


@given(properties)
def test_properties_travel_alone_too(given_properties: dict[str, tuple[tuple[PropertyType, PropertyValue], int, int]]) -> None:
    given_ones = tuple(
        MessageProperty(name=name, type=kind, value=value) for name, ((kind, value), _, _) in sorted(given_properties.items())
    )

    assert set(given_ones) == set(from_header(to_header(given_ones)))


def test_a_repeated_property_stays_repeated_in_a_message_and_alone() -> None:
    """Source: IBM, MQSMPO_APPEND_PROPERTY: a list of properties with one name."""
    given_ones = (text("usr.a", "1"), text("usr.b"), text("usr.a", "2"))

    assert given_ones == from_header(to_header(given_ones))
    assert given_ones == part(*with_properties(TEXT, b"body", given_ones)).properties


def test_no_properties_are_no_header() -> None:
    assert (TEXT, b"body") == with_properties(TEXT, b"body", ())
    assert ((), b"") == (from_header(b""), to_header(()))


# Source: IBM, "Mapping property descriptor fields into MQRFH2 headers" (q104200), "Supported MQRFH2 folders" (q104150).
@pytest.mark.parametrize(
    ("given_property", "written"),
    [
        (text("usr.a"), b"<usr><a>blue</a></usr>"),
        (text("own.a"), b"<own content='properties'><a>blue</a></own>"),
        (text("usr.a", copy_options=Copy.REPLY), b"<usr><a copy='reply'>blue</a></usr>"),
        (text("usr.a", copy_options=Copy.PUBLISH | Copy.REPORT), b"<usr><a copy='report,publish'>blue</a></usr>"),
        (text("usr.a", copy_options=Copy.ALL), b"<usr><a copy='all'>blue</a></usr>"),
        (text("usr.a", copy_options=Copy.NONE), b"<usr><a copy='none'>blue</a></usr>"),
        (text("usr.a", context=1), b"<usr><a context='user'>blue</a></usr>"),
        (text("mq.a", support=Support.REQUIRED), b"<mq><a sr='required'>blue</a></mq>"),
        (text("mq.a", support=Support.REQUIRED_IF_LOCAL), b"<mq><a sx='local'>blue</a></mq>"),
        (text("own.a.b"), b"<own content='properties'><a><b>blue</b></a></own>"),
        (MessageProperty(name="usr.a", type=PropertyType.NULL, value=None), b"<usr><a xsi:nil='true'></a></usr>"),
    ],
)
def test_a_property_and_its_descriptor_are_an_element_and_its_attributes(
    given_property: MessageProperty, written: bytes
) -> None:
    descriptor, data = with_properties(TEXT, b"body", (given_property,))

    assert written in data
    assert (given_property,) == part(descriptor, data).properties


def test_support_is_read_from_the_mq_folder_only() -> None:
    """Source: IBM q104200: the attributes are ignored on elements of other folders."""
    said = FolderProperty("a", "blue", "string", (("sr", "required"),))
    descriptor, data = join(TEXT, [RFH2(folders=(Folder("usr", (said,)),))], b"")

    assert (Support.OPTIONAL,) == tuple(each.support for each in part(descriptor, data).properties)


def message(*folders: Folder, before: tuple[DeadLetterHeader, ...] = ()) -> tuple[MessageDescriptor, bytes]:
    return join(TEXT, [*before, RFH2(folders=folders)], b"body")


USER = Folder("usr", (FolderProperty("colour", "blue"),))
OWN = Folder("own", (FolderProperty("x", "1"),))
MQ_USER = Folder("mq_usr", (FolderProperty("y", "2"),))


def test_folders_that_hold_no_properties_stay_in_the_data() -> None:
    parted = part(*message(USER, OWN))

    assert message(OWN) == (parted.descriptor, parted.body)
    assert ["usr.colour"] == [each.name for each in parted.properties]


def test_a_folder_with_the_content_mark_holds_properties_under_any_name() -> None:
    marked = Folder("own", (FolderProperty("x", "1"),), attributes=(("content", "properties"),))

    assert ["own.x"] == [each.name for each in part(*message(marked)).properties]


def test_properties_behind_a_dead_letter_header_are_properties_too() -> None:
    """Source: IBM, "Generation of MQRFH2 headers" (q104160)."""
    header = DeadLetterHeader(reason=2051, destination_queue="Q")
    parted = part(*message(USER, before=(header,)))
    rest = split(parted.descriptor, parted.body)

    assert (Format.DEAD_LETTER_HEADER, Format.STRING, b"body") == (parted.descriptor.format, rest.format, rest.body)
    assert ["usr.colour"] == [each.name for each in parted.properties]
    assert parted == part(*with_properties(parted.descriptor, parted.body, parted.properties))


def test_a_header_that_is_added_names_the_character_set_of_the_data() -> None:
    """IBM's classes for Java cannot read text behind a header with MQCCSI_INHERIT (decision 90)."""
    descriptor, body = with_properties(MessageDescriptor(format=Format.STRING, ccsid=1208), b"body", (text("usr.size"),))

    header, _ = rfh2.parse(body, encoding=descriptor.encoding, ccsid=descriptor.ccsid)
    assert 1208 == header.ccsid


def test_properties_are_added_to_a_header_that_is_there() -> None:
    """Source: IBM q104160: merged if possible."""
    parted = part(*with_properties(*message(OWN, USER), (text("usr.colour", "red"), text("usr.size"))))

    assert message(OWN) == (parted.descriptor, parted.body)
    assert [("usr.colour", "red"), ("usr.size", "blue")] == [(each.name, each.value) for each in parted.properties]


def test_data_that_only_look_like_properties_stay_as_they_are_with_2421() -> None:
    descriptor = MessageDescriptor(format=Format.RF_HEADER_2)

    assert Parted(descriptor, b"RFH no header at all", (), Reason.RFH_FORMAT_ERROR) == part(descriptor, b"RFH no header at all")


def test_a_value_that_cannot_stand_in_a_header_is_refused() -> None:
    with refused(Reason.RFH_STRING_ERROR):
        with_properties(TEXT, b"", (text("usr.a", "\0"),))


# Source: IBM q103350 (PropertyControl): COMPATIBILITY shows the properties of a message with mcd, jms, usr or mqext only.
ALL_SHOWN = ("COMPATIBILITY", "ALL", "FORCE_MQRFH2", "V6COMPAT")
SHOWN = (
    ("of JMS", (USER, MQ_USER), ALL_SHOWN),
    ("of an own folder", (MQ_USER,), ALL_SHOWN[1:]),
    ("none at all", (OWN,), (*ALL_SHOWN, "NONE")),
)


@pytest.mark.parametrize("control", PropertyControl)
@pytest.mark.parametrize(("which", "folders", "shown"), SHOWN)
def test_each_control_shows_these_properties(
    control: PropertyControl, which: str, folders: tuple[Folder, ...], shown: tuple[str, ...]
) -> None:
    descriptor, data = message(*folders)
    found = projected(descriptor, data, control)

    expected = (descriptor, data) if control.name in shown else (TEXT, b"body")
    assert expected == (found.descriptor, found.body), which
    assert ((), Reason.NONE) == (found.properties, found.reason)


@pytest.mark.parametrize("control", PropertyControl)
def test_broken_headers_are_shown_and_only_none_warns(control: PropertyControl) -> None:
    descriptor = MessageDescriptor(format=Format.RF_HEADER_2)
    found = projected(descriptor, b"RFH", control)

    warned = Reason.RFH_FORMAT_ERROR if control is PropertyControl.NONE else Reason.NONE
    assert Parted(descriptor, b"RFH", (), warned) == found
