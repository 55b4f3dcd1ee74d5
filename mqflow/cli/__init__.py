"""The command line. `mqflow.cli.main` is the entry; each command has a module, imported when the command is asked for."""
