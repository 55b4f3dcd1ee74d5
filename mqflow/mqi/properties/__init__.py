"""Message properties: names, types, and their places in an RFH2 and in the descriptor.

No module here imports `mqflow.verbs`, `mqflow.mqi.attributes` or `mqflow.mqi.selectors`.
"""
