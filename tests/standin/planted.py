"""Defects for the stand-in's tests to notice, which no public suite of the packages notices, and their cost to a program.

Those that the state machine of the embedded queue manager plants as well come from there; the others are here.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mqflow.embedded.calls import open as opening
from mqflow.embedded.connection import EmbeddedConnection
from mqflow.mqi.options import GetOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.standin.calls import messages
from mqflow.verbs import GetOptions, Got, Put
from tests.model.defects import (
    Plant,
    a_backout_is_not_counted,
    a_get_by_identifier_takes_any,
    a_get_in_the_unit_of_work_is_not_in_it,
    an_inhibited_queue_gives_messages,
    browse_next_starts_again,
    disconnecting_backs_out,
    exclusive_input_is_shared,
)

__all__ = ("NOTICED",)


def _change_gets(patch: pytest.MonkeyPatch, change: Callable[[int], int], reason: int = 0, instead: int = 0) -> None:
    """Let each MQGET run with changed options. If the options differ, it returns `instead` for `reason`."""
    real = EmbeddedConnection.get

    def get(self: EmbeddedConnection, handle: Any, options: GetOptions) -> Got | None:
        changed = GetOption(change(options.options))
        got = real(self, handle, replace(options, options=changed))
        if got is None or changed == options.options or got.reason != reason:
            return got
        return replace(got, reason=instead)

    patch.setattr(EmbeddedConnection, "get", get)


def a_truncated_message_stays_though_truncation_is_accepted(patch: pytest.MonkeyPatch) -> None:
    reasons = Reason.TRUNCATED_MSG_FAILED, Reason.TRUNCATED_MSG_ACCEPTED
    _change_gets(patch, lambda options: options & ~GetOption.ACCEPT_TRUNCATED_MSG, *reasons)


def a_truncated_message_goes_though_truncation_is_not_accepted(patch: pytest.MonkeyPatch) -> None:
    reasons = Reason.TRUNCATED_MSG_ACCEPTED, Reason.TRUNCATED_MSG_FAILED
    _change_gets(patch, lambda options: options | GetOption.ACCEPT_TRUNCATED_MSG, *reasons)


def a_temporary_queue_outlives_its_handle(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(opening, "TEMPORARY_DYNAMIC", -1)


def nothing_is_converted(patch: pytest.MonkeyPatch) -> None:
    _change_gets(patch, lambda options: options & ~GetOption.CONVERT)


def an_uncommitted_put_is_visible(patch: pytest.MonkeyPatch) -> None:
    real = EmbeddedConnection.put

    def put(self: EmbeddedConnection, handle: Any, descriptor: Any, body: bytes, options: PutOption, **more: Any) -> Put:
        return real(self, handle, descriptor, body, (options & ~PutOption.SYNCPOINT) | PutOption.NO_SYNCPOINT, **more)

    patch.setattr(EmbeddedConnection, "put", put)


def the_length_of_what_was_cut_off_is_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(messages, "TRUNCATED", frozenset())


NOTICED: Final[tuple[tuple[Plant, str], ...]] = (
    (a_backout_is_not_counted, "test_each_backout_of_a_get_adds_one_to_the_backout_count"),
    (a_backout_is_not_counted, "test_the_backout_count_is_kept_in_a_version_1_descriptor_as_well"),
    (a_get_in_the_unit_of_work_is_not_in_it, "test_each_backout_of_a_get_adds_one_to_the_backout_count"),
    (disconnecting_backs_out, "test_disconnecting_commits_the_unit_of_work"),
    (disconnecting_backs_out, "test_losing_the_last_reference_to_a_connection_commits_too"),
    (a_truncated_message_stays_though_truncation_is_accepted,
     "test_a_message_that_is_cut_off_is_gone_when_truncation_is_accepted"),
    (a_truncated_message_goes_though_truncation_is_not_accepted,
     "test_a_message_that_does_not_fit_stays_when_truncation_is_not_accepted"),
    (the_length_of_what_was_cut_off_is_not_told, "test_a_message_that_does_not_fit_stays_when_truncation_is_not_accepted"),
    (a_temporary_queue_outlives_its_handle, "test_a_temporary_dynamic_queue_goes_with_the_handle_that_made_it"),
    (exclusive_input_is_shared, "test_a_queue_open_exclusively_cannot_be_opened_for_input"),
    (an_inhibited_queue_gives_messages, "test_a_queue_that_is_inhibited_for_gets_refuses_them_and_nothing_else"),
    (nothing_is_converted, "test_text_is_converted_to_the_character_set_asked_for"),
    (nothing_is_converted, "test_a_message_that_cannot_be_converted_is_returned_unchanged_with_a_warning"),
    (an_uncommitted_put_is_visible, "test_a_put_under_syncpoint_shows_when_it_is_committed"),
    (browse_next_starts_again, "test_browsing_leaves_messages_where_they_are"),
    (a_get_by_identifier_takes_any, "test_version_1_options_match_by_identifier_with_any_bytes_behind_them"),
)  # fmt: skip
"""Each defect, and the test that is there to notice it."""
