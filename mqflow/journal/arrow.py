"""pyarrow, an extra that takes 80 ms to load. It loads at the first use of one of its names, not before."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ("LateModule", "compute", "pa", "pc", "pq")


class LateModule(ModuleType):
    """Stands for the module of the same name, which loads at the first use of one of its names."""

    def __getattr__(self, name: str) -> Any:  # Any: each name of the module has its own type
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)  # so the next use of the name does not come here
        return value


#: The functions of Arrow without types, because pyarrow makes them when it is imported.
compute: Any = LateModule("pyarrow.compute")

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pa, pc, pq = LateModule("pyarrow"), compute, LateModule("pyarrow.parquet")
