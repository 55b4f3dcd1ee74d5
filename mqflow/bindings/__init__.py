"""Real IBM MQ behind the seam: one adapter over the C extensions of ibmmq and pymqi.

Importing this loads neither package: `dialects.load` does, when a queue manager is opened by its URL.
"""

__all__ = ()
