"""Makes `python -m mqflow.cli` the same as `mqflow`. Commands start their child processes in this way, with the same Python."""

from mqflow.cli.main import main

main(prog_name="mqflow")
