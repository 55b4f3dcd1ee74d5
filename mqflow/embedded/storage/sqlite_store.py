"""The store of a data folder whose medium is one SQLite file. This module connects `durable_store` and `sqlite.medium`."""

from pathlib import Path

from mqflow.embedded.storage.durable_store import FREE_BYTES_MIN, DurableStore
from mqflow.embedded.storage.sqlite.medium import SqliteMedium
from mqflow.world import SYSTEM_WORLD, World

__all__ = ("SqliteStore",)


class SqliteStore(DurableStore):
    """A durable store in SQLite. The parameters and the errors are those of `DurableStore`."""

    def __init__(
        self,
        folder: Path,
        *,
        create: bool = True,
        world: World = SYSTEM_WORLD,
        free_bytes_min: int = FREE_BYTES_MIN,
    ) -> None:
        super().__init__(folder, SqliteMedium, create=create, world=world, free_bytes_min=free_bytes_min)
