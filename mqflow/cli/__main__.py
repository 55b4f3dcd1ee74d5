"""The program `mqflow`, which is also `python -m mqflow.cli`. Commands start their child processes in this way.

The objects of the imported modules stay until the process ends. So no collection of garbage looks at them, not even the last
one. This takes a quarter of the processor time off a short command. The objects of an application are not affected, because a
command imports an application later.
"""

import gc
import os
import sys

__all__ = ("program",)


def program() -> None:
    """Run the command line in a process of its own."""
    gc.disable()
    _open_closed_streams()
    from mqflow.cli.main import main  # noqa: PLC0415 - without collections

    gc.freeze()
    try:
        main(prog_name="mqflow", obj=_keep)
    except SystemExit as ended:
        if ended.code:
            _forget_unwritten()
        raise


def _open_closed_streams() -> None:
    """Give each standard stream that the caller has closed a descriptor, so that no other file of the process gets its number.

    To read stdin or to write to stdout is then an error. A text for stderr is lost.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # getattr, setattr: the names are in the line above
            os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_WRONLY)  # the lowest free number
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115 - open until the end


def _forget_unwritten() -> None:
    """Forget a text that stdout or stderr did not take. Otherwise Python would write it again, and exit with 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _keep() -> None:
    gc.freeze()
    gc.enable()


if __name__ == "__main__":
    program()
