"""Decides what a pass over all candidates comes to when none of them could be had.

Knows attempts and errors; connects to nothing. IBM: 2059, or the last specific code, where everything was tried (recalled).
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason, reason_name
from mqflow.policy.channels.candidates import Candidate
from mqflow.policy.reconnect.reason_classes import Class, classify

__all__ = ("ConnectFailed", "after_pass")

_TOLD_MAX: Final = 10


class ConnectFailed(Struct, frozen=True):
    """An attempt that failed, and with what."""

    attempt: Candidate
    error: MQIError


def after_pass(name: str, failed: Sequence[ConnectFailed]) -> MQIError:
    """Return the error of a pass that reached nothing: all attempts are in it, each with its reason.

    As long as one of them may succeed later it is one that asks for another pass: 2059, or the only reason there was. Where no
    attempt can do better before a person changes something, it is the last reason. `failed` is not empty.
    """
    later = [each for each in failed if classify(int(each.error.reason)) is not Class.CONFIGURATION]
    reasons = {int(each.error.reason) for each in later} or {int(failed[-1].error.reason)}
    [reason] = reasons if len(reasons) == 1 else {int(Reason.Q_MGR_NOT_AVAILABLE)}
    if later and classify(reason) is not Class.RECONNECT:
        reason = Reason.Q_MGR_NOT_AVAILABLE  # no connection was had, whatever it is called: there has to be another pass
    told = "; ".join(_told(each) for each in failed[:_TOLD_MAX])
    more = f"; and {len(failed) - _TOLD_MAX} more" if len(failed) > _TOLD_MAX else ""
    return error_for(reason, "MQCONNX", queue_manager=name.strip(), detail=f"Tried {told}{more}")


def _told(failed: ConnectFailed) -> str:
    attempt = failed.attempt
    detail = f", {failed.error.detail.rstrip('.')}" if failed.error.detail else ""
    return f"{attempt.channel.name} at {attempt.address}: {reason_name(int(failed.error.reason))}{detail}"
