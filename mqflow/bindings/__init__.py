"""IBM MQ behind the interface `mqflow.verbs`: one adapter over the C extensions of ibmmq and pymqi.

Importing this folder loads neither package: `dialects.base.load` loads one package when an application connects by a URL.

No module here imports `mqflow.runtime`, `mqflow.embedded` or `anyio`.
"""

__all__ = ()
