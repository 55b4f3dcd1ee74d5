"""`python -m mqflow.cli` is `mqflow`: how a worker is started with the same Python."""

from mqflow.cli.main import main

main(prog_name="mqflow")
