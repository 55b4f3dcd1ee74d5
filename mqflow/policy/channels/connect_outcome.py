"""Decides which error to raise if every candidate was tried and no connection was made.

This module connects to nothing.
Source: IBM, from memory: if every attempt failed, MQCONNX returns 2059, or the last specific code.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason, reason_name
from mqflow.policy.channels.candidates import Candidate
from mqflow.policy.reconnect.reason_classes import Class, classify

__all__ = ("ConnectFailed", "after_pass")

_LISTED_MAX: Final = 10


class ConnectFailed(Struct, frozen=True):
    """A candidate that could not be connected, and its error."""

    attempt: Candidate
    error: MQIError


def after_pass(name: str, failed: Sequence[ConnectFailed]) -> MQIError:
    """Return the error to raise after all candidates have failed. Its text lists each attempt with its reason.

    If another pass over the candidates may succeed, the reason is 2059, or the reason that all such attempts have in common. If
    no candidate can succeed before a person changes something, the error has the reason of the last attempt, or 2059 if the
    reasons differ. `failed` is not empty.
    """
    later = [each for each in failed if classify(int(each.error.reason)) is not Class.CONFIGURATION]
    reasons = {int(each.error.reason) for each in later} or {int(failed[-1].error.reason)}
    [reason] = reasons if len(reasons) == 1 else {int(Reason.Q_MGR_NOT_AVAILABLE)}
    if later and classify(reason) is not Class.RECONNECT:
        reason = Reason.Q_MGR_NOT_AVAILABLE  # makes the caller try again; the common reason does not
    tried = "; ".join(_described(each) for each in failed[:_LISTED_MAX])
    more = f"; and {len(failed) - _LISTED_MAX} more" if len(failed) > _LISTED_MAX else ""
    return error_for(reason, "MQCONNX", queue_manager=name.strip(), detail=f"Tried {tried}{more}")


def _described(failed: ConnectFailed) -> str:
    attempt = failed.attempt
    detail = f", {failed.error.detail.rstrip('.')}" if failed.error.detail else ""
    return f"{attempt.channel.name} at {attempt.address}: {reason_name(int(failed.error.reason))}{detail}"
