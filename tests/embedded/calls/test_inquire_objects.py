"""MQINQ on a namelist, which no package can read, and MQSET of text. Source: IBM, MQINQ (MQCA_NAMES), MQSET."""

from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.options import ObjectType, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import ObjectDescriptor
from tests.conformance.under_test import refused

NAME_COUNT, NAMES, TRIGGER_DATA = 19, 2020, 2023


def test_the_names_of_a_namelist_are_one_text_with_48_characters_for_each() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        run("DEFINE NAMELIST(N) NAMES(ONE,TWO)", queue_manager.administration)
        connection = queue_manager.connect()
        handle = connection.open(ObjectDescriptor("N", ObjectType.NAMELIST), OpenOption.INQUIRE)

        assert {NAME_COUNT: 2, NAMES: "ONE".ljust(48) + "TWO".ljust(48)} == connection.inquire(
            handle, [NAME_COUNT, NAMES]
        ).values
        with refused(Reason.SELECTOR_ERROR):
            connection.inquire(handle, [NAME_COUNT, TRIGGER_DATA])

        run("DELETE NAMELIST(N)", queue_manager.administration)
        with refused(Reason.OBJECT_CHANGED):
            connection.inquire(handle, [NAME_COUNT])


def test_a_text_of_mqset_has_as_many_characters_as_its_attribute() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="Q"))
        handle = (connection := queue_manager.connect()).open("Q", OpenOption.SET | OpenOption.INQUIRE)

        connection.set(handle, {TRIGGER_DATA: "\u00fc" * 64})

        assert "\u00fc" * 64 == connection.inquire(handle, [TRIGGER_DATA]).values[TRIGGER_DATA]
        with refused(Reason.CHAR_ATTR_LENGTH_ERROR):
            connection.set(handle, {TRIGGER_DATA: "\u00fc" * 65})
