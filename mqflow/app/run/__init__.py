"""A running application: its start and stop, signals, puts outside of deliveries, and the decision ledger.

Must not import `mqflow.embedded`, `mqflow.bindings` or `mqflow.cli`.
"""
