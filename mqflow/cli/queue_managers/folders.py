"""The folders that `mqflow qmgr` works on: whose each is, and how its queue manager stands.

Looks and asks; changes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mqflow.app.errors import ConfigurationError
from mqflow.cli.processes.is_served import name_said_at
from mqflow.cli.text.terminal import note
from mqflow.embedded.storage.database import check_identity
from mqflow.embedded.storage.folder import DataFolder, FolderError, prepare_folder
from mqflow.embedded.storage.read_only import name_in
from mqflow.embedded.storage.standby import owner_pid, standby_pid
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason

__all__ = ("existing", "existing_of", "folder_of", "status_of", "statuses")

_REFUSES: Final[Mapping[int, str]] = {
    Reason.Q_MGR_QUIESCING: "active until its applications have disconnected",
    Reason.MAX_CONNS_LIMIT_REACHED: "active, with as many connections as it takes",
}
"""What it is said to be by which reason a connection is refused."""


def folder_of(name: str, folder: Path | None) -> Path:
    """Return where the data is: as said, or in a folder of that name."""
    return Path(name) if folder is None else folder


def existing(name: str, folder: Path | None) -> tuple[Path, DataFolder]:
    """Return the folder of a queue manager. Raises `ConfigurationError` where none was made there, and a `FolderError`."""
    place = folder_of(name, folder)
    if not (place / "queue_manager.db").exists():
        said = "--data names another folder" if folder is None else "--data says where to look"
        raise ConfigurationError(f"There is no queue manager in {place}: mqflow qmgr create {name} makes one; {said}.")
    data = prepare_folder(place, create=False)
    check_identity(data)
    return place, data


def existing_of(name: str, folder: Path | None) -> tuple[Path, DataFolder]:
    """Return the folder of the queue manager of this name. Raises as `existing`, and where it is another one's."""
    place, data = existing(name, folder)
    if (known := name_in(data)) not in {"", name}:
        raise ConfigurationError(f"{place} holds the data of {known}, not of {name}: check the name, or --data.")
    return place, data


def statuses(places: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the status of each; of a folder that is somebody else's it is said, and no more."""
    for place in places:
        try:
            yield status_of(place)
        except FolderError as error:
            note(f"mqflow: {error}")


def status_of(place: Path) -> dict[str, Any]:
    """Return what there is to say of it. Raises a `FolderError` where it is no queue manager's folder."""
    data = prepare_folder(place, create=False)
    name = name_in(data) or place.name
    pid, waiting = owner_pid(data), standby_pid(data)
    said = "ended" if pid is None else "active"
    if pid is not None:
        try:
            name = name_said_at(place)
        except MQIError as error:
            said = f"{_REFUSES.get(error.reason, 'active, and does not answer')} ({int(error.reason)})"
    return {"queue manager": name, "status": said, "process": pid or "", "standby": waiting or "", "data": str(place)}
