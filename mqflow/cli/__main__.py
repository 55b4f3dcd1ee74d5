"""The program `mqflow`, which is also `python -m mqflow.cli`. Commands start their child processes in this way.

The objects of the imported modules stay until the process ends. So no collection of garbage looks at them, not even the last
one. This takes a quarter of the processor time off a short command. The objects of an application are not affected, because a
command imports an application later.
"""

import gc

__all__ = ("program",)


def program() -> None:
    """Run the command line in a process of its own."""
    gc.disable()
    from mqflow.cli.main import main  # noqa: PLC0415 - without collections

    gc.freeze()
    main(prog_name="mqflow", obj=_keep)


def _keep() -> None:
    gc.freeze()
    gc.enable()


if __name__ == "__main__":
    program()
