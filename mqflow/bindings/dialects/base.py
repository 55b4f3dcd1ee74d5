"""The interface of a client package, which is the MQI on bytes, and the loading of an installed package.

The adapter uses only the C extensions of the packages, not their Python classes. Such a class disconnects, and thereby
commits, when Python collects the object. Such a class gets a long message in two calls, which can find different messages. Such
a class also adds its own OpenTelemetry data to the message.
"""

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Final, Protocol

from mqflow.bindings.connect_options import ClientPackageError, ConnectOptions
from mqflow.bindings.mqcno import Prepared

__all__ = ("PACKAGES", "Dialect", "installed", "load", "load_any")

PACKAGES: Final = ("pymqi", "ibmmq")
"""The packages in the order in which `auto` tries them."""

Ended = tuple[int, int]
"""Completion code and reason."""

_OF_THE_LINKER: Final = ("shared object", "undefined symbol", "dlopen", "Library not loaded", "DLL load failed", "libmq")
"""Texts in the errors of dynamic linkers: Linux, macOS, Windows."""


class Dialect(Protocol):
    """The MQI as one package offers it. Give each call a fresh copy of its structures: the MQI writes into them.

    Every call returns its results, then completion code and reason. A call raises only if the package refuses it.
    """

    @property
    def name(self) -> str:
        """The name of the package."""
        ...

    @property
    def built_for(self) -> str:
        """The level of IBM MQ whose client the package was built for."""
        ...

    def check(self, options: ConnectOptions) -> None:
        """Raise `ClientPackageError` for an option that this package does not support; the error names the alternative."""

    def connect(self, wanted: Prepared) -> tuple[int, int, int]:
        """Call MQCONNX; return Hconn."""
        ...

    def disconnect(self, hconn: int) -> Ended:
        """Call MQDISC."""
        ...

    def open(self, hconn: int, od: bytes, options: int) -> tuple[int, bytes, int, int]:
        """Call MQOPEN; return Hobj and the MQOD."""
        ...

    def close(self, hconn: int, hobj: int, options: int) -> Ended:
        """Call MQCLOSE."""
        ...

    def put(self, hconn: int, hobj: int, md: bytes, pmo: bytes, body: bytes) -> tuple[bytes, bytes, int, int]:
        """Call MQPUT; return the MQMD and the MQPMO."""
        ...

    def put1(self, hconn: int, od: bytes, md: bytes, pmo: bytes, body: bytes) -> tuple[bytes, bytes, int, int]:
        """Call MQPUT1; return the MQMD and the MQPMO."""
        ...

    def get(self, hconn: int, hobj: int, md: bytes, gmo: bytes, room: int) -> tuple[bytes, bytes, bytes, int, int, int]:
        """Call MQGET; return the data that fit into `room` bytes, the MQMD, the MQGMO and DataLength."""
        ...

    def inquire(self, hconn: int, hobj: int, selectors: Sequence[int]) -> tuple[dict[int, int | bytes], int, int]:
        """Call MQINQ; return the values by selector. A number that does not apply is -1."""
        ...

    def set(self, hconn: int, hobj: int, values: Mapping[int, int | bytes]) -> Ended:
        """Call MQSET with numbers, and with characters that the caller has padded to their length."""
        ...

    def subscribe(self, hconn: int, sd: bytes, hobj: int) -> tuple[bytes, int, int, int, int]:
        """Call MQSUB; return the MQSD, Hobj and Hsub."""
        ...

    def request(self, hconn: int, hsub: int, action: int, sro: bytes) -> tuple[bytes, int, int]:
        """Call MQSUBRQ; return the MQSRO."""
        ...

    def commit(self, hconn: int) -> Ended:
        """Call MQCMIT."""
        ...

    def backout(self, hconn: int) -> Ended:
        """Call MQBACK."""
        ...


def load(package: str) -> Dialect:
    """Return the package, ready to call.

    Raises `ClientPackageError` if the package is not installed, cannot be loaded, or has an unusable version.
    """
    module = importlib.import_module(f"mqflow.bindings.dialects.{package}")
    make: Callable[[ModuleType], Dialect] = module.dialect
    return make(_import(package))


def load_any() -> Dialect:
    """Return pymqi if it is installed, otherwise ibmmq. Raises the errors of `load`, for example if neither is installed."""
    for package in PACKAGES:
        if installed(package):
            return load(package)
    raise ClientPackageError(
        "Neither pymqi nor ibmmq is installed, so there is no way to IBM MQ. Install one: "
        'pip install "mqflow[ibmmq]" (wheels), or pip install "mqflow[pymqi]" (needs a C compiler and IBM\'s client).'
    )


def installed(package: str) -> bool:
    """Return whether the package is installed. A package whose import fails counts as installed."""
    return importlib.util.find_spec(package) is not None


def _import(package: str) -> ModuleType:
    extension = {"ibmmq": "ibmmqc", "pymqi": "pymqe"}[package]
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name == package:
            raise ClientPackageError(f'{package} is not installed: pip install "mqflow[{package}]".') from error
        if error.name == extension:
            # The error of the dynamic linker: the package tries its extension twice, and the second error hides the first.
            raise _unloadable(package, str(error.__context__ or error), of_linker=True) from error
        raise _unloadable(package, str(error)) from error
    except (ImportError, OSError) as error:
        raise _unloadable(package, str(error)) from error


def _unloadable(package: str, said: str, *, of_linker: bool = False) -> ClientPackageError:
    problem = f"{package} is installed, but cannot be loaded: {said.rstrip('.')}."
    if not of_linker and not any(word in said for word in _OF_THE_LINKER):
        return ClientPackageError(f"{problem} Install it again: pip install --force-reinstall {package}.")
    return ClientPackageError(
        f"{problem} It needs IBM's client library (libmqm_r.so or libmqic_r.so). Install the IBM MQ client, or unpack the "
        "redistributable client and start Python with its lib64 folder in LD_LIBRARY_PATH. `mqflow doctor` then names it."
    )
