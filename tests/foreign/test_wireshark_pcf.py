"""Wireshark reads the PCF messages of our codec: the header, and a value of every kind of parameter."""

from pathlib import Path

import pytest

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Encoding
from mqflow.mqi.pcf.codes import StructureType
from mqflow.mqi.pcf.structures import (
    CFBF,
    CFBS,
    CFGR,
    CFH,
    CFIF,
    CFIL,
    CFIL64,
    CFIN,
    CFIN64,
    CFSF,
    CFSL,
    CFST,
    PCFMessage,
    to_bytes,
)
from tests.foreign.dissecting import TSHARK, Message, dissect

pytestmark = pytest.mark.skipif(TSHARK is None, reason="there is no tshark to show messages to: apt-get install tshark")

MQCA_Q_NAME, MQIA_CURRENT_Q_DEPTH, MQCMD_INQUIRE_Q, MQRC_UNKNOWN_OBJECT_NAME = 2016, 3, 13, 2085
MQCFOP_LIKE = 18

PARAMETERS = (
    (CFIN(MQIA_CURRENT_Q_DEPTH, -7), "mqpcf.parm.int", ["-7"]),
    (CFIN64(744, 2**40 + 1), "mqpcf.parm.int64", [str(2**40 + 1)]),
    (CFST(MQCA_Q_NAME, "ORDERS.IN"), "mqpcf.parm.string", ["ORDERS.IN"]),
    (CFBS(7001, bytes(range(24))), "mqpcf.parm.bytestring", [bytes(range(24)).hex()]),
    (CFIL(1002, (1, -2, 3)), "mqpcf.parm.intlist", ["1", "-2", "3"]),
    (CFIL64(744, (2**40, -1)), "mqpcf.parm.int64list", [str(2**40), "-1"]),
    (CFSL(2020, ("ONE", "TWO.LONGER")), "mqpcf.parm.stringlist", ["ONE", "TWO.LONGER"]),
    (CFIF(MQIA_CURRENT_Q_DEPTH, 4, 10), "mqpcf.parm.int", ["10"]),
    (CFSF(MQCA_Q_NAME, MQCFOP_LIKE, "ORDERS.*"), "mqpcf.parm.string", ["ORDERS.*"]),
    (CFBF(7006, 2, bytes(24)), "mqpcf.parm.bytestring", [bytes(24).hex()]),
    (CFGR(8001, (CFIN(MQIA_CURRENT_Q_DEPTH, 5),)), "mqpcf.parm.int", ["5"]),
)


def shown(message: PCFMessage, encoding: int, folder: Path, *fields: str) -> dict[str, list[str]]:
    """Return the values that Wireshark shows. PCF has the byte order of the descriptor, not of the channel."""
    descriptor = MessageDescriptor(format="MQADMIN", encoding=encoding, ccsid=1208)
    body = to_bytes(message, encoding=encoding, ccsid=1208)
    (found,) = dissect([Message(descriptor.to_bytes(), body)], fields, folder)
    return found


@pytest.mark.parametrize("encoding", [Encoding.NATIVE, Encoding.NORMAL])
def test_the_header_is_read_as_it_was_written(encoding: int, tmp_path: Path) -> None:
    header = CFH(
        type=StructureType.RESPONSE, command=MQCMD_INQUIRE_Q, sequence_number=3, completion=2, reason=MQRC_UNKNOWN_OBJECT_NAME
    )
    fields = ("type", "length", "version", "command", "MsgSeqNbr", "control", "compcode", "reasoncode", "ParmCount")

    found = shown(PCFMessage(header, (CFIN(1, 2),)), encoding, tmp_path, *(f"mqpcf.cfh.{field}" for field in fields))

    assert [2, 36, 1, 13, 3, 1, 2, 2085, 1] == [int(found[f"mqpcf.cfh.{field}"][0], 0) for field in fields]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("encoding", [Encoding.NATIVE, Encoding.NORMAL])
@pytest.mark.parametrize(("parameter", "field", "values"), PARAMETERS, ids=[type(each).__name__ for each, _, _ in PARAMETERS])
def test_a_parameter_is_read_as_it_was_written(
    parameter: CFIN, field: str, values: list[str], encoding: int, tmp_path: Path
) -> None:
    last = CFST(MQCA_Q_NAME, "the last one")

    found = shown(
        PCFMessage(CFH(command=MQCMD_INQUIRE_Q, version=3), (parameter, last)), encoding, tmp_path, "mqpcf.parm.id", field,
        "mqpcf.parm.string",
    )  # fmt: skip

    assert str(parameter.parameter) == str(int(found["mqpcf.parm.id"][0], 0))
    assert values == [value.rstrip() for value in found[field]][: len(values)]
    assert "the last one" == found["mqpcf.parm.string"][-1]  # its length proves that the dissector used it
