"""Each deviation from IBM MQ that strangers' programs and administrators met, and the test that would notice it again."""

import re
from pathlib import Path

import pytest

from mqflow.embedded import mqsc
from mqflow.embedded.mqsc.display import as_json
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.options import ObjectType, OpenOption
from mqflow.verbs import ObjectDescriptor

TESTS = Path(__file__).parents[1]
PACKAGES, CALLBACKS = "standin/test_packages.py", "standin/calls/test_callbacks.py"
STATUSES, INQUIRE, REMOTE = (
    "embedded/administration/test_statuses.py",
    "conformance/test_inquire.py",
    "conformance/test_remote_queues.py",
)
SEGMENTS, GROUPS = "conformance/test_segmentation.py", "conformance/test_whole_groups.py"
NOTICED_BY = {
    "a process that is defined can be opened": (INQUIRE, "test_mqinq_answers_the_attributes_of_a_process"),
    "an undefined namelist or process is 2085": (INQUIRE, "test_an_object_that_is_not_defined_is_2085"),
    "an empty property name is 2513": ("mqi/properties/test_set.py", "test_an_empty_name_is_2513"),
    "MQSET of text counts bytes, and ends at a NUL": ("standin/test_commands.py",
        "test_the_text_of_an_attribute_is_utf_8_in_mqset_and_mqinq"),
    "a retained publication says MQIsRetained": ("conformance/test_retained.py",
        "test_a_retained_publication_says_so_to_a_new_subscription_and_not_to_a_present_one"),
    "an asynchronous put in syncpoint fails at MQCMIT": (PACKAGES, "test_a_failed_asynchronous_put_backs_out_its_unit_of_work"),
    "MQSTAT has the 2053 of an asynchronous put": (PACKAGES,
        "test_mqstat_reports_a_failed_asynchronous_put_and_the_put_does_not"),
    "DEFPRESP(ASYNC) makes puts asynchronous": (PACKAGES,
        "test_a_queue_with_defpresp_async_answers_a_client_early_unless_the_put_says_otherwise"),
    "a message above MQCD.MaxMsgLength is 2010": (PACKAGES, "test_a_message_longer_than_its_channel_allows_is_2010"),
    "REFRESH SECURITY(*)": (STATUSES, "test_refresh_security_takes_an_asterisk"),
    "DISPLAY CONN(*) TYPE(*)": (STATUSES, "test_display_conn_of_every_type_shows_connections_and_their_handles"),
    "DISPLAY TPSTATUS TYPE(SUB)": (STATUSES, "test_tpstatus_and_sbstatus_show_the_same_figures"),
    "a PCF command that only MQ has is 2298": (STATUSES,
        "test_a_command_that_mq_has_and_this_queue_manager_does_not_have_is_2298"),
    "a number that is no PCF command is 3007": (STATUSES, "test_a_number_that_is_no_command_is_3007"),
    "a put to a QREMOTE waits on the transmission queue": (REMOTE,
        "test_a_put_to_a_remote_queue_waits_on_its_transmission_queue_behind_an_mqxqh"),
    "a queue manager's name finds its transmission queue": (REMOTE,
        "test_a_queue_of_another_queue_manager_is_reached_by_the_transmission_queue_of_its_name"),
    "segmentation by the queue manager": (SEGMENTS,
        "test_a_message_that_is_too_long_for_the_queue_becomes_segments_of_multiples_of_16_bytes"),
    "a split message comes back whole": (SEGMENTS, "test_a_split_message_comes_back_whole"),
    "ALL_MSGS_AVAILABLE": (GROUPS, "test_a_get_in_logical_order_finds_only_complete_groups"),
    "ALL_SEGMENTS_AVAILABLE": (GROUPS, "test_all_segments_available_waits_for_the_segments_of_one_message_only"),
    "MQCB and MQCTL on a served queue manager": (CALLBACKS, "test_callbacks_run_over_a_queue_manager_in_another_process_too"),
    "MQCTL SUSPEND frees the connection, which was 2500": (CALLBACKS,
        "test_suspended_callbacks_free_the_connection_for_other_calls"),
    "SUSPEND while stopped and START while suspended are 2534": (CALLBACKS,
        "test_stopped_callbacks_are_not_suspended_and_suspended_ones_not_started"),
}  # fmt: skip


@pytest.mark.parametrize(("file", "test"), NOTICED_BY.values(), ids=NOTICED_BY)
def test_a_test_notices_the_deviation(file: str, test: str) -> None:
    assert re.search(rf"^def {test}\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_a_namelist_that_is_defined_can_be_opened_and_inquired() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        assert 0 == mqsc.run("DEFINE NAMELIST(NAMES) NAMES(A, B)", queue_manager.administration).exit_code()
        connection = queue_manager.connect()

        namelist = connection.open(ObjectDescriptor("NAMES", ObjectType.NAMELIST), OpenOption.INQUIRE)
        name_count, names = 19, 2020
        answer = connection.inquire(namelist, [name_count, names])

        assert {name_count: 2, names: f"{'A':48}{'B':48}"} == answer.values


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param("STREAMQ(COPIES)", id="the streaming queue"),
        pytest.param("STRMQOS(MUSTDUP)", id="its quality"),
        pytest.param("CLWLRANK(3) CLWLPRTY(4) CLWLUSEQ(ANY)", id="the workload of a cluster"),
    ],
)
def test_an_attribute_without_effect_is_stored_and_shown(attributes: str) -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        script = f"DEFINE QLOCAL(COPIES)\nDEFINE QLOCAL(Q) {attributes}\nDISPLAY QLOCAL(Q) ALL"

        results = mqsc.run(script, queue_manager.administration)

        assert 0 == results.exit_code()
        (shown,) = results.responses[-1].records
        assert set(attributes.split()) <= {f"{name}({value})" for name, value in as_json(shown).items()}
