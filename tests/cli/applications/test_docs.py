"""`mqflow docs`: the document of an application as JSON, YAML and a page, without a queue manager."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from mqflow.cli.applications.docs import page
from tests.cli.conftest import Run

APP = '''
from msgspec import Struct
from mqflow import App
app = App("embedded:./nowhere/data?qmgr=QM1", name="shop")
class Order(Struct):
    """An order."""
    number: int
@app.listener("ORDERS.IN")
@app.publisher("BOOKED")
async def book(order: Order) -> Order:
    """Book an order."""
    return order
'''


@pytest.fixture(autouse=True)
def shop(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MQFLOW_URL")
    (tmp_path / "docs_shop.py").write_text(APP)


def test_the_document_is_json_on_standard_output_and_no_queue_manager_is_made(run: Run, tmp_path: Path) -> None:
    done = run("docs", "docs_shop:app", "--title", "Orders", "--api-version", "2.0.0")

    assert 0 == done.exit_code, done.output
    document = json.loads(done.stdout)
    assert {"title": "Orders", "version": "2.0.0"} == document["info"]
    assert ["ORDERS.IN", "BOOKED"] == list(document["channels"])
    assert not (tmp_path / "nowhere").exists()


def test_the_end_of_the_file_name_chooses_the_format_and_yaml_says_what_json_says(run: Run, tmp_path: Path) -> None:
    (tmp_path / "docs_lone.py").write_text(APP.replace('@app.publisher("BOOKED")\n', ""))
    assert "a.json: 2 channels, 1 operation." in run("docs", "docs_lone:app", "--output", "a.json").stderr
    for name in ("shop.json", "shop.yaml", "shop.html"):
        done = run("docs", "docs_shop:app", "--output", name)
        assert f"{name}: 2 channels, 2 operations." in done.stderr

    assert json.loads((tmp_path / "shop.json").read_text()) == yaml.safe_load((tmp_path / "shop.yaml").read_text())
    assert (tmp_path / "shop.html").read_text().startswith("<!doctype html>")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - as HTMLParser has it
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    "hostile", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "\u202eevil"]
)
def test_no_name_or_text_of_an_application_becomes_markup(hostile: str) -> None:
    message = {
        "name": hostile,
        "contentType": hostile,
        "payload": {"type": "object", "properties": {hostile: {"type": hostile}}},
    }
    channel = {"address": hostile, "messages": {"m": message}, "bindings": {"ibmmq": {"destinationType": "queue"}}}
    operation = {"action": "receive", "channel": {"$ref": "#/channels/c"}, "summary": hostile, "description": hostile}
    document = {
        "asyncapi": "3.0.0",
        "info": {"title": hostile, "version": hostile},
        "channels": {"c": channel},
        "operations": {"o": operation},
        "components": {"schemas": {"S": {"description": hostile, "enum": [hostile]}}},
    }

    shown = _Page()
    shown.feed(page(document))

    assert not {"script", "img"} & shown.tags
    assert 10 <= shown.text.count(hostile)
    assert "49" not in shown.text
