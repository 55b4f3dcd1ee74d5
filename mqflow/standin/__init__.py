"""A library in the place of IBM's: the real, unmodified ibmmq and pymqi packages run on the embedded queue manager.

Only where somebody asks for it: by `install`, by `mqflow standin run`, by the fixture `mq_standin`. It is not IBM MQ, and says
so in the description of the queue manager. The public names, no logic.
"""

from mqflow.standin.host import ConnectRequest
from mqflow.standin.library.install import Installed, StandInError, install

__all__ = ("ConnectRequest", "Installed", "StandInError", "install")
