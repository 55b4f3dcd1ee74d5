"""The contract of a client package: the MQI on bytes; and the loading of an installed package.

The adapter uses only the C extensions of the packages. Their Python classes disconnect, and so commit, when Python collects
them. They get a long message in two calls, which can meet different messages, and add their own OpenTelemetry to it.
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


class Dialect(Protocol):
    """The MQI as one package offers it. Each structure is a fresh copy: the MQI writes into it.

    Every call returns its results, then the completion code and the reason; it raises only for a refusal of the package itself.
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
        """Raise `ClientPackageError` for an option that this package does not support, and name the alternative."""
        ...

    def connect(self, wanted: Prepared) -> tuple[int, int, int]:
        """MQCONNX: Hconn."""
        ...

    def disconnect(self, hconn: int) -> Ended:
        """MQDISC."""
        ...

    def open(self, hconn: int, od: bytes, options: int) -> tuple[int, bytes, int, int]:
        """MQOPEN: Hobj and the MQOD."""
        ...

    def close(self, hconn: int, hobj: int, options: int) -> Ended:
        """MQCLOSE."""
        ...

    def put(self, hconn: int, hobj: int, md: bytes, pmo: bytes, body: bytes) -> tuple[bytes, bytes, int, int]:
        """MQPUT: MQMD and MQPMO."""
        ...

    def put1(self, hconn: int, od: bytes, md: bytes, pmo: bytes, body: bytes) -> tuple[bytes, bytes, int, int]:
        """MQPUT1: MQMD and MQPMO."""
        ...

    def get(self, hconn: int, hobj: int, md: bytes, gmo: bytes, room: int) -> tuple[bytes, bytes, bytes, int, int, int]:
        """MQGET: the data that fit, MQMD, MQGMO and DataLength."""
        ...

    def inquire(self, hconn: int, hobj: int, selectors: Sequence[int]) -> tuple[dict[int, int | bytes], int, int]:
        """MQINQ: the values by selector; a number that does not apply is -1."""
        ...

    def set(self, hconn: int, hobj: int, values: Mapping[int, int | bytes]) -> Ended:
        """MQSET: numbers, and characters padded to their length."""
        ...

    def subscribe(self, hconn: int, sd: bytes, hobj: int) -> tuple[bytes, int, int, int, int]:
        """MQSUB: MQSD, Hobj and Hsub."""
        ...

    def request(self, hconn: int, hsub: int, action: int, sro: bytes) -> tuple[bytes, int, int]:
        """MQSUBRQ: MQSRO."""
        ...

    def commit(self, hconn: int) -> Ended:
        """MQCMIT."""
        ...

    def backout(self, hconn: int) -> Ended:
        """MQBACK."""
        ...


def load(package: str) -> Dialect:
    """Return the package, ready to call.

    Raises `ClientPackageError` if it is not installed, cannot be loaded, or has an unusable version.
    """
    module = importlib.import_module(f"mqflow.bindings.dialects.{package}")
    make: Callable[[ModuleType], Dialect] = module.dialect
    return make(_import(package))


def load_any() -> Dialect:
    """Return pymqi if it is installed, else ibmmq. Raises what `load` raises if neither is usable."""
    for package in PACKAGES:
        if installed(package):
            return load(package)
    raise ClientPackageError(
        "Neither pymqi nor ibmmq is installed, so there is no way to IBM MQ: "
        'pip install "mqflow[ibmmq]" (wheels), or pip install "mqflow[pymqi]" (needs a C compiler and IBM\'s client).'
    )


def installed(package: str) -> bool:
    """Return whether the package is installed, also if its import fails."""
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
            raise _unloadable(package, str(error.__context__ or error)) from error
        raise _unloadable(package, str(error)) from error
    except (ImportError, OSError) as error:
        raise _unloadable(package, str(error)) from error


def _unloadable(package: str, said: str) -> ClientPackageError:
    return ClientPackageError(
        f"{package} is installed, but cannot be loaded: {said.rstrip('.')}. It needs IBM's client library (libmqm_r.so or "
        "libmqic_r.so): install the IBM MQ client, or unpack the redistributable client and start Python with its lib64 folder "
        "in LD_LIBRARY_PATH. `mqflow doctor` shows the libraries it finds."
    )
