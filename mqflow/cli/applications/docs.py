"""`mqflow docs`: writes the AsyncAPI 3 document of an application as JSON, YAML or a page of HTML. It opens no queue."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from mqflow.app.asyncapi import asyncapi_document
from mqflow.app.errors import ConfigurationError
from mqflow.cli.applications.application_loader import load_application
from mqflow.cli.option_types import url_option
from mqflow.cli.text.terminal import counted, note

__all__ = ("command", "page")

_FORMATS: Final = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".html": "html"}


@click.command("docs")
@click.argument("application", metavar="MODULE:APP")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="The file; default: standard output.")
@click.option("--format", "wanted", type=click.Choice(["json", "yaml", "html"]), help="Default: by the file's name, else json.")
@click.option("--title", help="The title of the document; default: the name of the application, else MODULE:APP.")
@click.option("--api-version", "version", default="1.0.0", show_default=True, help="The version in the document.")
@url_option
def command(
    application: str, output: Path | None, wanted: str | None, title: str | None, version: str, url: str | None
) -> None:
    """Describe MODULE:APP as an AsyncAPI 3 document: its queues and topics, and the payloads of its handlers.

    The document has the listeners, publishers and schedules that the application declares. Tools of AsyncAPI read JSON and
    YAML. HTML is a page for people, without scripts. YAML and HTML need the extra mqflow[docs].
    """
    chosen = wanted or _FORMATS.get(output.suffix.lower() if output else "", "json")
    app = load_application(application, url=url)
    document = asyncapi_document(app, title=title or app.name or application, version=version)
    try:
        text = {"json": _json, "yaml": _yaml, "html": page}[chosen](document)
    except ImportError as error:
        needed = f"--format {chosen} needs a package that is missing ({error.name or error}): pip install 'mqflow[docs]'"
        raise ConfigurationError(f"{needed}. JSON needs none.") from error
    if output is None:
        click.echo(text, nl=False)
        return
    output.write_text(text, encoding="utf-8")
    note(f"{output}: {', '.join(counted(len(document[part]), part) for part in ('channels', 'operations'))}.")


def page(document: Mapping[str, Any]) -> str:
    """Return the HTML page for a document. The template escapes every text, and the page loads nothing from elsewhere."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - optional, needed for a page only

    templates = Environment(
        loader=PackageLoader("mqflow.cli.applications", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    templates.filters["kind"] = _kind
    templates.filters["json"] = lambda value: msgspec.json.format(msgspec.json.encode(value)).decode()
    schemas = document.get("components", {}).get("schemas", {})
    return templates.get_template("docs.html.j2").render(document=document, schemas=schemas)


def _json(document: Mapping[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(document)).decode() + "\n"


def _yaml(document: Mapping[str, Any]) -> str:
    return msgspec.yaml.encode(document).decode()


def _kind(schema: Mapping[str, Any]) -> str:
    """Return in words the type that a schema describes: `string`, `list of Line`, `integer or null`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(map(_kind, schema[key]))
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of {_kind(schema.get('items') or {})}"
    return f"{kind} ({schema['format']})" if "format" in schema else str(kind)
