"""PCF messages: structures, codes and the reading of both. This package knows no command server.

No module here imports `mqflow.embedded` or `mqflow.mqi.attributes`.
"""
