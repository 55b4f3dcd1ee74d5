"""The data folders of `mqflow qmgr`, with the name and the status of the queue manager in each folder.

This file reads folders and makes connections. It changes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, Final

from mqflow.app.errors import ConfigurationError
from mqflow.cli.processes.served_connections import queue_manager_name_at
from mqflow.cli.text.exit_codes import sentence_of
from mqflow.cli.text.terminal import note
from mqflow.embedded.storage.folder import DataFolder, FolderError, prepare_folder
from mqflow.embedded.storage.sqlite.database import check_identity
from mqflow.embedded.storage.sqlite.folder_summary import name_in
from mqflow.embedded.storage.standby import owner_pid, standby_pid
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason

__all__ = ("existing", "existing_of", "folder_of", "status_of", "statuses", "words_for")

_STATUS_BY_REASON: Final[Mapping[int, str]] = {
    Reason.Q_MGR_QUIESCING: "active until its applications disconnect",
    Reason.MAX_CONNS_LIMIT_REACHED: "active, with the highest number of connections",
}
"""The status of a queue manager, for each reason code with which it can refuse a connection."""


def folder_of(name: str, folder: Path | None) -> Path:
    """Return the data folder: the given folder, or a folder with the name of the queue manager in the current folder.

    Raises `ConfigurationError` if no folder can have this name there: a name can contain slashes, or be two dots.
    """
    if folder is None and ("/" in name or name in {".", ".."}):
        raise ConfigurationError(f"{name} cannot be the name of the data folder. Give the queue manager's name, and --data.")
    return Path(name) if folder is None else folder


def words_for(name: str, place: Path) -> str:
    """Return the words that name this queue manager on a command line: its name, and its folder if the name does not say it."""
    return name if place == Path(name) else f"{name} --data {quote(str(place))}"


def existing(name: str, folder: Path | None) -> tuple[Path, DataFolder]:
    """Return a queue manager's folder. Raises `ConfigurationError` if it is missing, and `FolderError` if it cannot be used."""
    place = folder_of(name, folder)
    if not (place / "queue_manager.db").exists():
        hint = "name another folder with --data" if folder is None else "check --data"
        create = f"mqflow qmgr create {words_for(name, place)}"
        raise ConfigurationError(f"There is no queue manager in {place}: create it with {create}, or {hint}.")
    data = prepare_folder(place, create=False)
    check_identity(data)
    return place, data


def existing_of(name: str, folder: Path | None) -> tuple[Path, DataFolder]:
    """Return the folder like `existing`. Raises `ConfigurationError` also if another queue manager has this folder."""
    place, data = existing(name, folder)
    if (known := name_in(data)) not in {"", name}:
        raise ConfigurationError(f"{place} holds the data of {known}, not of {name}: check the name, or --data.")
    return place, data


def statuses(places: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the status of each queue manager. Print a note for a folder that cannot be used."""
    for place in places:
        try:
            yield status_of(place)
        except (FolderError, OSError) as error:
            note(f"mqflow: {sentence_of(error)}")


def status_of(place: Path) -> dict[str, Any]:
    """Return the row for the status table. Raises `FolderError` if `place` is not the folder of a queue manager."""
    data = prepare_folder(place, create=False)
    name = name_in(data) or place.name
    pid, standby = owner_pid(data), standby_pid(data)
    status = "ended" if pid is None else "active"
    if pid is not None:
        try:
            name = queue_manager_name_at(place)
        except MQIError as error:
            status = f"{_STATUS_BY_REASON.get(error.reason, 'active, but does not answer')} ({int(error.reason)})"
    return {"queue_manager": name, "status": status, "process": pid or None, "standby": standby or None, "data": str(place)}
