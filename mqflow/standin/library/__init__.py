"""The shared library: this folder makes and loads it, and writes its C headers.

Must not import `mqflow.embedded` or `mqflow.mqi.attributes`.
"""
