"""A library in place of IBM's: the real, unmodified ibmmq and pymqi packages run on the embedded queue manager.

A process uses the library only after `install`, `mqflow standin run` or the fixture `mq_standin`. The library is not IBM MQ,
and the description of the queue manager says this. This file has the public names and no logic.

No module here imports `mqflow.embedded`, `mqflow.runtime` or `anyio`.
"""

from mqflow.standin.host import ConnectRequest
from mqflow.standin.library.install import Installed, StandInError, install

__all__ = ("ConnectRequest", "Installed", "StandInError", "install")
