"""ibmmq, IBM's package: the MQI by its C extension `ibmmqc`.

The extension keeps one receive buffer for each pair of Hconn and Hobj, so two threads must not get from one handle at a time.
If MQINQ returns a warning, the extension drops the values of all numeric attributes.
"""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final

from mqflow.bindings.connect_options import ClientPackageError, ConnectOptions
from mqflow.bindings.dialects.base import Dialect, Ended
from mqflow.bindings.mqcno import Prepared
from mqflow.bindings.structures import CHARS, FIRST_CHARACTER_SELECTOR, MQCNO, MQCSP, split
from mqflow.mqi.attributes.queue import NOT_APPLICABLE
from mqflow.mqi.reason_codes import Reason

__all__ = ("dialect",)

_NEEDED: Final = {"cno": 6, "cd": 11, "od": 4, "gmo": 4, "pmo": 3, "sco": 5}
_USER_AND_PASSWORD, _TOKEN = 1, 2
_TOKEN_NEEDS_CSP: Final = 3


def dialect(package: ModuleType) -> Dialect:
    """Return the dialect of ibmmq. Raises `ClientPackageError` if it was built for a client older than IBM MQ 9.1."""
    versions: Mapping[str, int] = package.ibmmqc.__strucversions__
    old = [name.upper() for name, needed in _NEEDED.items() if name not in versions or versions[name] < needed]
    if old:
        raise ClientPackageError(
            f"This ibmmq was built for an IBM MQ client that is too old (MQ{', MQ'.join(old)}). Install its wheel, which is "
            "built for a present one, or build it against a client of 9.1 or later."
        )
    return _Ibmmq(package.ibmmqc, versions, _release(str(package.__cmdlevel__)))


class _Ibmmq:
    name = "ibmmq"

    # Any: a C extension without types.
    def __init__(self, extension: Any, versions: Mapping[str, int], built_for: str) -> None:
        self.built_for = built_for
        self._versions = versions
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
        self.request = extension.MQSUBRQ
        self.commit = extension.MQCMIT
        self.backout = extension.MQBACK

    def check(self, options: ConnectOptions) -> None:
        """Refuse a token if the extension's MQCSP has no room for one."""
        if options.token and self._versions.get("csp", 1) < _TOKEN_NEEDS_CSP:
            raise ClientPackageError(
                "This ibmmq was built for a client that knows no tokens: use an ibmmq for 9.3.4 or later, or a password."
            )

    def connect(self, wanted: Prepared) -> tuple[int, int, int]:
        """Call MQCONNX with an MQCNO of the newest version that the extension was built for, up to version 7."""
        cno = MQCNO.pack(
            Version=min(7, self._versions["cno"]),
            Options=wanted.options,
            ApplName=wanted.application_name,
            CCDTUrlPtr=wanted.pointer(wanted.ccdt_url),
            CCDTUrlLength=len(wanted.ccdt_url),
        )
        answered: tuple[int, int, int] = self._connectx(wanted.name, cno, wanted.channel, _security(wanted), wanted.tls, None)
        return answered

    def inquire(self, hconn: int, hobj: int, selectors: Sequence[int]) -> tuple[dict[int, int | bytes], int, int]:
        """Inquire all selectors in one MQINQ. After a warning, inquire one by one: the extension drops all numeric values."""
        values, completion, reason = self._inquire_all(hconn, hobj, list(selectors))
        if reason != Reason.SELECTOR_NOT_FOR_TYPE or len(selectors) == 1:
            return values, completion, reason
        for selector in selectors:
            found, ended, why = self._inquire_all(hconn, hobj, [selector])
            if why not in {Reason.NONE, Reason.SELECTOR_NOT_FOR_TYPE}:
                return {}, ended, why
            values |= found
        return values, completion, reason

    def _inquire_all(self, hconn: int, hobj: int, selectors: list[int]) -> tuple[dict[int, int | bytes], int, int]:
        texts = [selector for selector in selectors if selector >= FIRST_CHARACTER_SELECTOR]
        numbers = [selector for selector in selectors if selector < FIRST_CHARACTER_SELECTOR]
        room = sum(CHARS[selector] for selector in texts)
        found, characters, completion, reason = self._inquire(hconn, hobj, selectors, [], len(numbers), len(texts), room)
        answers = found or [NOT_APPLICABLE] * len(numbers)
        return dict(zip(numbers, answers, strict=True)) | split(texts, characters or b""), completion, reason

    def set(self, hconn: int, hobj: int, values: Mapping[int, int | bytes]) -> Ended:
        """Set all values in one MQSET."""
        numbers = [value for value in values.values() if isinstance(value, int)]
        characters = b"".join(value for value in values.values() if isinstance(value, bytes))
        ended: Ended = self._set(hconn, hobj, list(values), numbers, characters)
        return ended


def _release(command_level: str) -> str:
    """Return "9.4.0" for the command level 940, "10.0.1" for 1001."""
    return ".".join((command_level[:-2], *command_level[-2:])) if command_level.isdigit() else command_level


def _security(wanted: Prepared) -> bytes | None:
    """Return the MQCSP, or None if there is neither a user nor a token."""
    if wanted.token:
        return MQCSP.pack(
            Version=_TOKEN_NEEDS_CSP,
            AuthenticationType=_TOKEN,
            TokenPtr=wanted.pointer(wanted.token),
            TokenLength=len(wanted.token),
        )
    if not wanted.user:
        return None
    return MQCSP.pack(
        AuthenticationType=_USER_AND_PASSWORD,
        CSPUserIdPtr=wanted.pointer(wanted.user),
        CSPUserIdLength=len(wanted.user),
        CSPPasswordPtr=wanted.pointer(wanted.password),
        CSPPasswordLength=len(wanted.password),
    )
