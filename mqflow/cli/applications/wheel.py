"""Makes a wheel of the installed mqflow, if mqflow was not installed from an index. So an application can install this mqflow.

This file reads the files of the installation. It runs no build and needs no network.
"""

import base64
import hashlib
import io
import zipfile
from importlib.metadata import Distribution
from pathlib import Path
from typing import Final

import mqflow

__all__ = ("is_from_index", "make_wheel")

_METADATA: Final = ("METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE")
_PACKAGE: Final = Path(mqflow.__file__).parent


def is_from_index(distribution: Distribution) -> bool:
    """Return whether pip installed the distribution from a package index, and not from a folder or a file (PEP 610)."""
    return distribution.read_text("direct_url.json") is None


def make_wheel(distribution: Distribution) -> tuple[str, bytes]:
    """Return the file name and the content of a wheel, with the modules and the metadata of the installed mqflow.

    Raises `OSError` if a file of the installation cannot be read.
    """
    stem = f"{distribution.name}-{distribution.version}"
    files = {f"mqflow/{path.relative_to(_PACKAGE).as_posix()}": path.read_bytes() for path in _modules()}
    for name in _METADATA:
        if (text := distribution.read_text(name)) is not None:
            files[f"{stem}.dist-info/{name}"] = text.encode()
    record = f"{stem}.dist-info/RECORD"
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in files.items()]
    files[record] = "\n".join((*lines, f"{record},,", "")).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return f"{stem}-py3-none-any.whl", made.getvalue()


def _modules() -> list[Path]:
    return sorted(path for path in _PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode("ascii")
