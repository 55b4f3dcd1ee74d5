"""Pure checks of calls: each check turns options into a plan or a refusal. They know no state.

No module here imports `mqflow.embedded.state`, `mqflow.embedded.storage` or `threading`.
"""
