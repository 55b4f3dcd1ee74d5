"""A running application: start, signals, stop, and the decision ledger."""
