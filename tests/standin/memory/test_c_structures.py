"""The structures: the places of their fields, and no access past the version."""

import ctypes
import re
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.mqi import c_structures
from mqflow.mqi.c_structures import STRUCTURES, Layout
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.standin.memory.structures import structure_at
from tests.conformance.under_test import refused
from tests.standin.harness import Program, only_in

pytestmark = pytest.mark.xdist_group("standin")

VERSIONS = [(layout, version) for layout in STRUCTURES for version in layout.lengths]
GUARD = b"\xa5" * 64

# The fields a program's connection depends on, by IBM's own offsets on 64-bit Linux.
OFFSETS = (
    ("MQGMO", "MatchOptions", 72), ("MQGMO", "MsgToken", 80), ("MQGMO", "MsgHandle", 104),
    ("MQPMO", "Context", 16), ("MQPMO", "OriginalMsgHandle", 160), ("MQPMO", "Action", 176),
    ("MQOD", "DynamicQName", 108), ("MQOD", "ResolvedQName", 248), ("MQOD", "ObjectStringVSPtr", 344),
    ("MQCNO", "SSLConfigPtr", 152), ("MQCNO", "SecurityParmsPtr", 192), ("MQCNO", "CCDTUrlPtr", 200),
    ("MQCNO", "ApplName", 224),
    ("MQCD", "UserIdentifier", 984), ("MQCD", "ConnectionName", 1024), ("MQCD", "HeartbeatInterval", 1480),
    ("MQCD", "SSLCipherSpec", 1688), ("MQCD", "SharingConversations", 1884), ("MQCD", "CertificateLabel", 1920),
    ("MQSD", "SubCorrelId", 192), ("MQSD", "SelectionStringVSPtr", 288), ("MQCBC", "ReconnectDelay", 56),
)  # fmt: skip


@pytest.mark.parametrize(("structure", "field", "offset"), OFFSETS)
def test_a_field_is_where_ibms_layout_has_it(structure: str, field: str, offset: int) -> None:
    layout: Layout = getattr(c_structures, structure)

    assert offset == layout.fields[field].offset


@pytest.mark.parametrize(("layout", "version"), VERSIONS, ids=[f"{layout.name}-{version}" for layout, version in VERSIONS])
def test_the_fields_of_a_version_fill_it_but_for_alignment(layout: Layout, version: int) -> None:
    end = max(field.offset + field.length for field in layout.fields.values() if field.since <= version)

    assert layout.lengths[version] - 8 < end <= layout.lengths[version]


@given(st.sampled_from(VERSIONS), st.integers(0, 2**31 - 1), st.binary(max_size=300))
def test_a_field_is_written_where_the_version_has_it_and_no_byte_behind_the_version_ever(
    which: tuple[Layout, int], number: int, data: bytes
) -> None:
    layout, version = which
    structure = structure_at(layout, ctypes.addressof(memory := blank(layout, version)), "MQI")

    for name, field in layout.fields.items():
        if name == "Version":
            continue
        if field.kind.endswith("s"):
            value = data[: field.length].ljust(field.length, b"\0")
            structure.set(**{name: value})
            assert (value if field.since <= version else bytes(field.length)) == structure.raw(name)
        else:
            structure.set(**{name: number})
            assert (number if field.since <= version else -7) == structure.number(name, -7)
    assert GUARD == memory.raw[layout.lengths[version] :]


@pytest.mark.parametrize("layout", STRUCTURES, ids=lambda layout: layout.name)
def test_an_unknown_version_and_another_structure_are_refused(layout: Layout) -> None:
    newer = struct.pack("i", max(layout.lengths) + 1)
    damages = [(layout.version_offset, newer, layout.version_reason), (0, b"????", layout.reason)]
    for offset, damage, reason in damages[: 2 if layout.identifier else 1]:
        memory = blank(layout, max(layout.lengths))
        memory[offset : offset + len(damage)] = damage

        with pytest.raises(MQIError) as raised:
            structure_at(layout, ctypes.addressof(memory), "MQI")

        assert reason == raised.value.reason


def test_no_structure_at_all_is_refused() -> None:
    with refused(Reason.OD_ERROR):
        structure_at(c_structures.MQOD, 0, "MQOPEN")


# What the packages call otherwise: the rest is called as IBM calls it.
RENAMED = {"pad": "Padding", "__pad": "Padding", "EncryptionPolicySuiteB": "EncryptionPolicySuiteB"}
POINTERS = {"CCDTUrl", "CSPUserId", "CSPPassword", "InitialKey", "Token", "KeyRepoPassword", "HTTPSKeyStore"}
PLACEHOLDER = re.compile(r"_?(_?Reserved\d?|StrucId|Version)$")
OF_BOTH = ("OD", "GMO", "PMO", "CD", "SCO", "SD", "SRO", "CMHO", "PD", "SMPO", "IMPO")
OF_IBMMQ = ("CNO", "CSP", "CBD", "CBC", "CTLO", "STS", "DMHO", "DMPO")


def _same_places(mq: Any, names: tuple[str, ...]) -> None:
    for name in names:
        layout: Layout = getattr(c_structures, f"MQ{name}")
        made = getattr(mq, name)()
        kinds = ""
        for item in made._MQOpts__list:
            kind = item[2] * (item[3] if len(item) > 3 else 1)
            offset = struct.calcsize(kinds + "0" + kind[-1]) if kind[-1] in "iqP" else struct.calcsize(kinds)
            kinds += kind
            called = item[0].lstrip("_") if item[0] not in RENAMED else RENAMED[item[0]]
            called = f"{called}Ptr" if called in POINTERS else called
            if not PLACEHOLDER.match(called) and "pad" not in called.lower():
                assert (f"{name}.{called}", offset) == (f"{name}.{called}", layout.fields[called].offset)


def test_every_field_is_where_the_package_has_it(program: Program) -> None:
    _same_places(program.mq, OF_BOTH)


@only_in("ibmmq", "pymqi has no Python classes for these")
def test_every_field_of_the_newer_structures_is_where_the_package_has_it(program: Program) -> None:
    _same_places(program.mq, OF_IBMMQ)


@only_in("ibmmq", "pymqi is compiled against our own headers: its sizes say nothing")
def test_the_sizes_are_those_that_ibms_compiled_code_expects(program: Program) -> None:
    c, md, none = program.mq.ibmmqc, bytes(364), b"?"
    calls = {
        "OD": lambda: c.MQOPEN(1, none, 0), "MD": lambda: c.MQPUT(1, 1, none, none, b""),
        "PMO": lambda: c.MQPUT(1, 1, md, none, b""), "GMO": lambda: c.MQGET(1, 1, md, none, 1),
        "SD": lambda: c.MQSUB(1, none, 1), "SRO": lambda: c.MQSUBRQ(1, 1, 1, none), "STS": lambda: c.MQSTAT(1, 0, none),
        "CBD": lambda: c.MQCB(1, 256, none, 1, md, bytes(112)), "CTLO": lambda: c.MQCTL(1, 1, none),
        "CMHO": lambda: c.MQCRTMH(1, none), "DMHO": lambda: c.MQDLTMH(1, 1, none),
        "SMPO": lambda: c.MQSETMP(1, 1, none, b"n", bytes(24), 1024, "v", 1),
        "PD": lambda: c.MQSETMP(1, 1, bytes(20), b"n", none, 1024, "v", 1),
    }  # fmt: skip
    expected = {name: 364 if name == "MD" else max(getattr(c_structures, f"MQ{name}").lengths.values()) for name in calls}

    assert expected == {name: _expected_by(call) for name, call in calls.items()}


def _expected_by(call: Any) -> int:
    try:
        call()
    except Exception as error:
        found = re.search(r"wrong size\. Given: \d+, expected (\d+)", str(error))
        if found is None:
            raise
        return int(found[1])
    raise AssertionError("a structure of the wrong size was taken")


def blank(layout: Layout, version: int) -> Any:
    """Return memory with an empty structure, and a guard behind it."""
    length = layout.lengths[version]
    memory = ctypes.create_string_buffer(layout.identifier.ljust(length, b"\0") + GUARD, length + len(GUARD))
    struct.pack_into("i", memory, layout.version_offset, version)
    return memory
