"""The C functions that the stand-in library offers: the types of their arguments, and the Python function that does the work.

The last two arguments of every MQI call are the addresses of the completion code and the reason. This file always fills in
both. It carries out no call: the modules of the verbs do.
"""

import ctypes
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.standin.calls import buffers, connect, message_handles, messages, objects, properties, subscribe
from mqflow.standin.calls import callbacks as consuming
from mqflow.standin.host import Host
from mqflow.standin.memory.structures import number_at, write_number

__all__ = ("BAGS", "CALLS", "SIGNATURES", "SYMBOLS", "callbacks")

_log: Final = logging.getLogger(__name__)

# The kinds of C arguments: a number by value, a number of eight bytes by value, an address.
_KINDS: Final = {"i": ctypes.c_int, "q": ctypes.c_longlong, "p": ctypes.c_void_p}

SIGNATURES: Final = {
    "MQBACK": "i", "MQBEGIN": "ip", "MQBUFMH": "iqppipp", "MQCB": "iipipp", "MQCLOSE": "ipi", "MQCMIT": "i", "MQCONN": "pp",
    "MQCONNX": "ppp", "MQCRTMH": "ipp", "MQCTL": "iip", "MQDISC": "p", "MQDLTMH": "ipp", "MQDLTMP": "iqpp", "MQGET": "iippipp",
    "MQINQ": "iiipipip", "MQINQMP": "iqppppipp", "MQMHBUF": "iqpppipp", "MQOPEN": "ipip", "MQPUT": "iippip", "MQPUT1": "ipppip",
    "MQSET": "iiipipip", "MQSETMP": "iqpppiip", "MQSTAT": "iip", "MQSUB": "ippp", "MQSUBRQ": "iiip", "MQXCNVC": "iiiipiipp",
}  # fmt: skip
"""The arguments of each call, without the last two addresses."""

BAGS: Final = {
    "mqAddBag": "MQHBAG MQLONG MQHBAG",
    "mqAddByteString": "MQHBAG MQLONG MQLONG PMQBYTE",
    "mqAddByteStringFilter": "MQHBAG MQLONG MQLONG PMQBYTE MQLONG",
    "mqAddInquiry": "MQHBAG MQLONG",
    "mqAddInteger": "MQHBAG MQLONG MQLONG",
    "mqAddInteger64": "MQHBAG MQLONG MQINT64",
    "mqAddIntegerFilter": "MQHBAG MQLONG MQLONG MQLONG",
    "mqAddString": "MQHBAG MQLONG MQLONG PMQCHAR",
    "mqAddStringFilter": "MQHBAG MQLONG MQLONG PMQCHAR MQLONG",
    "mqBagToBuffer": "MQHBAG MQHBAG MQLONG PMQVOID PMQLONG",
    "mqBufferToBag": "MQHBAG MQLONG PMQVOID MQHBAG",
    "mqClearBag": "MQHBAG",
    "mqCountItems": "MQHBAG MQLONG PMQLONG",
    "mqCreateBag": "MQLONG PMQHBAG",
    "mqDeleteBag": "PMQHBAG",
    "mqDeleteItem": "MQHBAG MQLONG MQLONG",
    "mqExecute": "MQHCONN MQLONG MQHBAG MQHBAG MQHBAG MQHOBJ MQHOBJ",
    "mqGetBag": "MQHCONN MQHOBJ PMQVOID PMQVOID MQHBAG",
    "mqInquireBag": "MQHBAG MQLONG MQLONG PMQHBAG",
    "mqInquireByteString": "MQHBAG MQLONG MQLONG MQLONG PMQBYTE PMQLONG",
    "mqInquireByteStringFilter": "MQHBAG MQLONG MQLONG MQLONG PMQBYTE PMQLONG PMQLONG",
    "mqInquireInteger": "MQHBAG MQLONG MQLONG PMQLONG",
    "mqInquireInteger64": "MQHBAG MQLONG MQLONG PMQINT64",
    "mqInquireIntegerFilter": "MQHBAG MQLONG MQLONG PMQLONG PMQLONG",
    "mqInquireItemInfo": "MQHBAG MQLONG MQLONG PMQLONG PMQLONG",
    "mqInquireString": "MQHBAG MQLONG MQLONG MQLONG PMQCHAR PMQLONG PMQLONG",
    "mqInquireStringFilter": "MQHBAG MQLONG MQLONG MQLONG PMQCHAR PMQLONG PMQLONG PMQLONG",
    "mqPad": "PMQCHAR MQLONG PMQCHAR",
    "mqPutBag": "MQHCONN MQHOBJ PMQVOID PMQVOID MQHBAG",
    "mqSetByteString": "MQHBAG MQLONG MQLONG MQLONG PMQBYTE",
    "mqSetByteStringFilter": "MQHBAG MQLONG MQLONG MQLONG PMQBYTE MQLONG",
    "mqSetInteger": "MQHBAG MQLONG MQLONG MQLONG",
    "mqSetInteger64": "MQHBAG MQLONG MQLONG MQINT64",
    "mqSetIntegerFilter": "MQHBAG MQLONG MQLONG MQLONG MQLONG",
    "mqSetString": "MQHBAG MQLONG MQLONG MQLONG PMQCHAR",
    "mqSetStringFilter": "MQHBAG MQLONG MQLONG MQLONG PMQCHAR MQLONG",
    "mqTrim": "MQLONG PMQCHAR PMQCHAR",
    "mqTruncateBag": "MQHBAG MQLONG",
}
"""The calls on bags: the C types of their arguments before the last two addresses. No bag exists: each call answers 2298.

Source: IBM, "C language invocation" of each MQAI call.
"""

SYMBOLS: Final = (*SIGNATURES, *BAGS)

CALLS: Final = hashlib.sha256(repr((SIGNATURES, BAGS)).encode()).hexdigest()[:16]
"""Differs between two versions of mqflow if a library of one version cannot use the table of calls of the other."""

Verb = Callable[..., int]


# Any, here and below: ctypes has no name for the type of its functions.
def callbacks(host: Callable[[], Host], *, client: bool) -> list[Any]:
    """Return a C function for each symbol, in order. Each C function calls `host` to find the host.

    In a client library (libmqic) every connection is a client connection.
    """
    verbs = _verbs(client=client)
    found = [_c_function(_boundary(host, name, verbs[name]), signature) for name, signature in SIGNATURES.items()]
    return found + [
        _c_function(_boundary(host, name, partial(_refused, name)), "p" * len(types.split())) for name, types in BAGS.items()
    ]


def _verbs(*, client: bool) -> Mapping[str, Verb]:
    return {
        "MQBACK": _back_out,
        "MQBEGIN": partial(_begin, client=client),
        "MQBUFMH": buffers.buffer_to_handle,
        "MQCB": consuming.register,
        "MQCLOSE": objects.close,
        "MQCMIT": _commit,
        "MQCONN": partial(connect.connect, client=client),
        "MQCONNX": partial(connect.connect_with_options, client=client),
        "MQCRTMH": message_handles.create_handle,
        "MQCTL": consuming.control,
        "MQDISC": _disconnect,
        "MQDLTMH": message_handles.delete_handle,
        "MQDLTMP": properties.delete_property,
        "MQGET": messages.get,
        "MQINQ": objects.inquire,
        "MQINQMP": properties.inquire_property,
        "MQMHBUF": buffers.handle_to_buffer,
        "MQOPEN": objects.open_object,
        "MQPUT": messages.put,
        "MQPUT1": messages.put_one,
        "MQSET": objects.set_attributes,
        "MQSETMP": properties.set_property,
        "MQSTAT": objects.status,
        "MQSUB": subscribe.subscribe,
        "MQSUBRQ": subscribe.request_publications,
        "MQXCNVC": buffers.convert_characters,
    }


def _c_function(function: Callable[..., None], signature: str) -> Any:
    return ctypes.CFUNCTYPE(None, *(_KINDS[kind] for kind in signature), ctypes.c_void_p, ctypes.c_void_p)(function)


def _boundary(host: Callable[[], Host], name: str, verb: Verb) -> Callable[..., None]:
    """Return the function as C calls it. Every exception of the library ends here, because no exception can pass through C."""

    def called(*arguments: int | None) -> None:
        *given, completion_at, reason_at = _addresses(arguments)
        completion, reason = CompletionCode.OK, 0
        try:
            reason = verb(host(), *given)
            completion = CompletionCode.WARNING if reason else CompletionCode.OK
        except MQIError as error:
            completion, reason = error.completion, error.reason
        except Exception:  # noqa: BLE001 - see above
            _log.exception("%s failed in the stand-in library; the program gets MQRC_UNEXPECTED_ERROR (2195)", name)
            completion, reason = CompletionCode.FAILED, Reason.UNEXPECTED_ERROR
        write_number(completion_at, completion)
        write_number(reason_at, reason)

    return called


def _addresses(arguments: Sequence[int | None]) -> list[int]:
    """Return the arguments with 0 for None: ctypes passes a null pointer as None."""
    return [argument or 0 for argument in arguments]


def _disconnect(host: Host, hconn_at: int) -> int:
    return connect.disconnect(host, hconn_at, number_at(hconn_at))


def _commit(host: Host, number: int) -> int:
    hconn = host.hconn(number, "MQCMIT")
    with hconn.used("MQCMIT"):
        if connect.give_up_unit(hconn):
            return Reason.BACKED_OUT
        hconn.connection.commit()
    return Reason.NONE


def _back_out(host: Host, number: int) -> int:
    hconn = host.hconn(number, "MQBACK")
    with hconn.used("MQBACK"):
        hconn.unit_failed = False
        hconn.connection.backout()
    return Reason.NONE


def _begin(host: Host, number: int, _options_at: int, *, client: bool) -> int:
    """MQBEGIN: warn that no other resource manager takes part. Refuse a client: it has no global units of work."""
    hconn = host.hconn(number, "MQBEGIN")
    if client or not hconn.local:
        raise error_for(Reason.ENVIRONMENT_ERROR, "MQBEGIN", detail="A client connection has no global units of work")
    return Reason.NO_EXTERNAL_PARTICIPANTS


def _refused(name: str, *_arguments: object) -> int:
    raise error_for(Reason.FUNCTION_NOT_SUPPORTED, name, detail="The embedded queue manager has no bags")
