"""`mqflow init`: creates an application that runs, with its queues, a test that passes, settings and a Containerfile.

`--plugin` creates a distribution with a plugin and its test instead. `--kubernetes` creates the manifests for an application.
`--compose` creates a file for the application and a queue manager of IBM. The folder `templates` has the files.
If mqflow was not installed from a package index, the new folder gets a wheel of the installed mqflow, made without a network.
"""

import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Callable
from importlib.metadata import Distribution, distribution
from pathlib import Path
from shlex import quote
from typing import Final

import click

import mqflow
from mqflow.app.errors import ConfigurationError

__all__ = ("command",)

_TEMPLATES: Final = Path(__file__).with_name("templates")
"""The folder that has a folder for each kind. In names and texts of its files, the new name replaces `{name}` and so on."""
_BESIDE: Final = {
    "kubernetes": "kustomization.yaml says what to change, and the commands.",
    "compose": "compose.yaml says what to do first, and the command.",
}
"""The kinds whose files are in a separate folder, each with the text of the user's next step."""
_NEEDED: Final = {"kubernetes": ("app.py",), "compose": ("app.py", "Containerfile", "queues.mqsc")}
"""The files of the application that the files of these kinds name."""
_TRIED: Final = ("mqflow mqsc queues.mqsc", """mqflow put NAMES.IN '{"name": "Ada"}'""", "mqflow run app:app")
"""The commands with which the user can try the new application."""
_NOT_IN_LABELS: Final = re.compile("[^a-z0-9]+")
_LABEL_CHARS: Final = 40
"""The largest number of characters of a label. Kubernetes allows 63, and adds some for each pod."""
_METADATA: Final = ("METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE")
_PACKAGE: Final = Path(mqflow.__file__).parent


def _files(kind: str, name: str) -> dict[str, str]:
    """Return the files of a kind, by path, with their texts for a project of this name."""
    label = _NOT_IN_LABELS.sub("-", name.lower())[:_LABEL_CHARS].strip("-")
    if label in {"", "mqflow"}:  # a project with the name of its dependency would replace it
        label = "application"

    def filled(text: str) -> str:
        return text.replace("{name}", name).replace("{module}", name.replace("-", "_")).replace("{label}", label)

    found = sorted((_TEMPLATES / kind).iterdir())
    return {filled(path.name.removesuffix(".txt")): filled(path.read_text(encoding="utf-8")) for path in found}


def _write(folder: Path, files: dict[str, str]) -> None:
    """Write the files. If one of them exists already, write nothing, and raise `ConfigurationError`."""
    existing = [name for name in files if (folder / name).exists()]
    if existing:
        raise ConfigurationError(f"{folder} has {', '.join(existing)} already; choose another folder. Nothing was changed.")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def _kind_option(kind: str, line: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(f"--{kind}", "kinds", flag_value=kind, multiple=True, help=line)


@click.command("init")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@_kind_option("plugin", "Create a plugin instead, with its entry point and its test.")
@_kind_option("kubernetes", "Create FOLDER/kubernetes instead, with manifests for the application in FOLDER.")
@_kind_option("compose", "Create FOLDER/compose instead: the application, and a queue manager in IBM's image for developers.")
def command(folder: Path, kinds: tuple[str, ...]) -> None:
    """Create a new application in FOLDER. If one of its files exists already, the command creates nothing.

    If mqflow was installed from a folder or a file, FOLDER/wheels gets a wheel of mqflow, for the container and for
    `pip install`.
    """
    if len({*kinds}) > 1:
        raise ConfigurationError(f"--{' and --'.join(kinds)} exclude each other: give one in each command.")
    kind = next(iter(kinds), "application")
    name = folder.resolve().name
    if kind == "plugin" and not (name.isascii() and name.replace("-", "_").isidentifier()):
        raise ConfigurationError(f"{name} cannot be the name of a plugin: use letters, digits and hyphens.")
    files = _files(kind, name)
    if kind in _BESIDE:
        missing = [each for each in _NEEDED[kind] if not (folder / each).exists()]
        if missing:
            remedy = f"`mqflow init {quote(str(folder))}` creates an application. Nothing was changed"
            raise ConfigurationError(f"{folder} has no {', no '.join(missing)}: --{kind} is for an application. {remedy}.")
        _write(folder / kind, files)
        click.echo(f"Created {folder / kind} with {', '.join(files)}. {_BESIDE[kind]}")
        return
    _write(folder, files)
    find_links = ""
    installed = distribution("mqflow")
    if not is_from_index(installed):
        wheel, content = make_wheel(installed)
        (folder / "wheels").mkdir(exist_ok=True)
        (folder / "wheels" / wheel).write_bytes(content)
        find_links = "--find-links wheels "
    click.echo(f"Created {folder} with {', '.join(files)}. Next:\n")
    tried = ("mqflow plugins",) if kind == "plugin" else _TRIED
    for line in (f"cd {quote(str(folder))}", f"pip install {find_links}-e '.[test]'", "pytest", *tried):
        click.echo(f"  {line}")


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
