"""Message properties: names, types, and their places in an RFH2 and in the descriptor.

Must not import `mqflow.verbs`, `mqflow.mqi.attributes` or `mqflow.mqi.selectors`.
"""
