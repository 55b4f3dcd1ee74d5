"""PCF messages: structures, codes and the reading of both. This package knows no command server.

Must not import `mqflow.embedded` or `mqflow.mqi.attributes`.
"""
