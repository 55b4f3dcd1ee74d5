"""Pure checks of a call: each turns options into a plan or a refusal. They know no state."""
