"""The start of every story in a world: a folder, an active queue manager that is served, and a standby at another address."""

from pathlib import Path
from typing import Final

from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from tests.simulation.history import Disk
from tests.simulation.hosts import QUEUE_MANAGER, Folder, Owner, folder_with
from tests.simulation.wire import Network
from tests.simulation.world import Chance, Process, World

__all__ = ("Stage",)

_ADDRESSES: Final = (TcpAddress("a", 1414), TcpAddress("b", 1414))


class Stage:
    """Two owners, one of them active, and no connection yet."""

    def __init__(self, chance: Chance, root: Path, definitions: tuple[str, ...], disk: Disk) -> None:
        self.chance = chance
        self.world = World(chance)
        self.network = Network(self.world)
        self.folder = Folder(folder_with(root, definitions), self.world, disk)
        self.owners = [Owner(self.network, self.folder, _ADDRESSES[0], "owner 1")]
        self.world.turn(10.0, lambda: self.owners[0].active)
        self.owners.append(Owner(self.network, self.folder, _ADDRESSES[1], "owner 2"))

    def manager(self, process: Process) -> ServedQueueManager:
        """Return the queue manager as this process connects to it."""
        return ServedQueueManager(
            _ADDRESSES, name=QUEUE_MANAGER, user="sim", world=process.outside, dial=self.network.dial_from(process)
        )

    @property
    def active(self) -> Owner | None:
        """The owner that serves, or None."""
        return next((each for each in self.owners if each.active), None)

    def repair(self) -> None:
        """Let every stopped owner continue, and make sure that two owners exist."""
        for owner in self.owners:
            if owner.process.stopped:
                owner.process.go_on()
        usable = [owner for owner in self.owners if owner.usable]
        for _ in range(2 - len(usable)):
            taken = {owner.address for owner in self.owners if owner.usable}
            address = next(each for each in _ADDRESSES if each not in taken)
            self.owners.append(Owner(self.network, self.folder, address, f"owner {len(self.owners) + 1}"))

    def close(self) -> None:
        """End everything."""
        self.world.close()
        for owner in self.owners:
            if owner.process.alive:
                owner.process.alive = False
                for act in owner.process.at_death:
                    act()
