"""Pure checks of a call: each turns options into a plan or a refusal. They know no state.

Must not import `mqflow.embedded.state`, `mqflow.embedded.storage` or `threading`.
"""
