"""Opens a store on a full disk and empties the store. Prints how many messages it found, and how many it could not remove.

Run as a program on the faulty disk. With `killed`, the process is killed before it closes the store.
"""

import os
import signal
import sys
from pathlib import Path

from mqflow.embedded.storage.store import MessageRemoved
from tests.embedded.storage.stored_messages import opened, say, serials, write


def main(folder: str, at_most: str = "1000", end: str = "closed") -> None:
    with opened(Path(folder), free_bytes_min=0) as (store, snapshot):
        found = serials(snapshot)
        say("found", len(found))
        say("kept", sum(write(store, [MessageRemoved(serial)]) is not None for serial in found[: int(at_most)]))
        if end == "killed":
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
