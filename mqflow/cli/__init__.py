"""The `mqflow` command. Each command is a module of its own; this one finds them."""
