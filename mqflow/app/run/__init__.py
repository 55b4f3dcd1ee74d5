"""A running application: its start and stop, signals, puts outside of deliveries, and the decision ledger.

No module here imports `mqflow.embedded`, `mqflow.bindings` or `mqflow.cli`.
"""
