"""pymqi: the MQI by its C extension `pymqe`.

The extension makes its own MQCNO of version 5 and its own MQCSP. These structures have no CCDT URL, no application name and
no token. MQINQ and MQSET of the extension take one selector at a time.
"""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from mqflow.bindings.connect_options import ClientPackageError, ConnectOptions
from mqflow.bindings.dialects.base import Dialect, Ended
from mqflow.bindings.mqcno import Prepared
from mqflow.bindings.structures import CHARS, FIRST_CHARACTER_SELECTOR
from mqflow.mqi.attributes.queue import NOT_APPLICABLE
from mqflow.mqi.reason_codes import CompletionCode, Reason

__all__ = ("dialect",)


def dialect(package: ModuleType) -> Dialect:
    """Return the dialect of pymqi. Raises `ClientPackageError` if it was built for a client older than IBM MQ 7.0."""
    levels: Sequence[str] = package.pymqe.__mqlevels__
    if "7.0" not in levels:
        raise ClientPackageError(
            f"This pymqi was built for IBM MQ {', '.join(levels)}, which is too old. Install a present IBM MQ client, and "
            "build pymqi again (pip install --force-reinstall --no-binary pymqi pymqi)."
        )
    return _Pymqi(package.pymqe, levels[-1])


class _Pymqi:
    name = "pymqi"

    # Any: a C extension without types.
    def __init__(self, extension: Any, built_for: str) -> None:
        self.built_for = built_for
        self._connectx = extension.MQCONNX
        self._inquire = extension.MQINQ
        self._set = extension.MQSET
        self.disconnect = extension.MQDISC
        self.open = extension.MQOPEN
        self.close = extension.MQCLOSE
        self.put = extension.MQPUT
        self.put1 = extension.MQPUT1
        self.get = extension.MQGET
        self.subscribe = extension.MQSUB
        self.commit = extension.MQCMIT
        self.backout = extension.MQBACK

    def check(self, options: ConnectOptions) -> None:
        """Refuse options that have no room in pymqi's MQCNO and MQCSP."""
        if options.ccdt_url:
            raise ClientPackageError(
                "pymqi cannot hand a CCDT to the client. Use ibmmq://, or leave ccdt out of the URL and set MQCCDTURL in the "
                "environment before the application starts."
            )
        if options.token:
            raise ClientPackageError("pymqi cannot hand a token to the client: use ibmmq://, or a user and a password.")

    def connect(self, wanted: Prepared) -> tuple[int, int, int]:
        """Call MQCONNX with both user and password, or with neither: if one is missing, pymqi still follows its pointer."""
        # The secrets are bytes, because pymqi would keep its own copy of a `str` for ever.
        named = {"user": wanted.user, "password": wanted.password} if wanted.user else {}
        more = () if wanted.tls is None else (wanted.tls,)
        answered: tuple[int, int, int] = self._connectx(wanted.name, wanted.options, wanted.channel, named, *more)
        return answered

    def inquire(self, hconn: int, hobj: int, selectors: Sequence[int]) -> tuple[dict[int, int | bytes], int, int]:
        """Inquire one selector after the other (MQINQ); return also the reason of the last warning."""
        values: dict[int, int | bytes] = {}
        worst: Ended = (int(CompletionCode.OK), int(Reason.NONE))
        for selector in selectors:
            value, completion, reason = self._inquire(hconn, hobj, selector)
            if completion == CompletionCode.FAILED:
                return {}, completion, reason
            if reason == Reason.SELECTOR_NOT_FOR_TYPE and selector < FIRST_CHARACTER_SELECTOR:
                value = NOT_APPLICABLE
            values[selector] = value if isinstance(value, int) else value[: CHARS[selector]]
            worst = (completion, reason) if reason else worst
        return values, worst[0], worst[1]

    def request(self, hconn: int, hsub: int, action: int, sro: bytes) -> tuple[bytes, int, int]:  # noqa: ARG002 - see below
        """Refuse MQSUBRQ, which pymqi does not have (2298)."""
        return sro, CompletionCode.FAILED, Reason.FUNCTION_NOT_SUPPORTED

    def set(self, hconn: int, hobj: int, values: Mapping[int, int | bytes]) -> Ended:
        """Set one value after the other (MQSET). If a value is refused, the values before it stay set."""
        for selector, value in values.items():
            completion, reason = self._set(hconn, hobj, selector, value)
            if completion != CompletionCode.OK:
                return completion, reason
        return CompletionCode.OK, Reason.NONE
