"""The shared library: this folder makes and loads it, and writes its C headers.

No module here imports `mqflow.embedded` or `mqflow.mqi.attributes`.
"""
