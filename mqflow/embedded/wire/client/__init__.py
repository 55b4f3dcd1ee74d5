"""The application's end of the wire: offers a queue manager that another process serves.

Must not import `mqflow.embedded.wire.server`, `mqflow.embedded.state` or `mqflow.embedded.storage`.
"""
