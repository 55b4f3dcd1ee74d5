"""Pure checks of a call: options in, a plan or a refusal out. Knows no state."""
