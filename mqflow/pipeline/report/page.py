"""Writes a report: one HTML page without other files, and pictures beside it, light and dark.

Jinja fills the template `page.html.j2`, which has the layout and the texts, and escapes text from messages. `charts` makes the
drawings. The page has no script, and tells the browser to run none.
"""

import re
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from statistics import median_low
from typing import TYPE_CHECKING, Final

import msgspec

from mqflow.pipeline.report.charts import PNGS, charts
from mqflow.pipeline.report.data import ROWS_MAX, Report, Row, minute, sentences
from mqflow.pipeline.report.text import isolated, map_texts, visible

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

__all__ = ("page", "write_report")

_ROWS_SHOWN: Final = 12
"""How many rows of a table the page shows; report.json has all of them."""
_BREAKS: Final = re.compile(r"(?<=[._/])|(?<=[0-9a-f]{16})(?=[0-9a-f]{16})")
"""The places at which a long name or identifier can continue on the next line."""
_NAMED: Final = ("first_msg_id", "last_msg_id")
"""The columns that name a message as an example."""
_AGES: Final = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
_THEMES: Final = ("light", "dark")


def write_report(report: Report, folder: Path) -> Path:
    """Write `report.html`, `report.json` and `png/<chart>-<light or dark>.png` in the folder; return the path of the page."""
    import vl_convert  # noqa: PLC0415 - 80 MB, needed to draw only

    pictures = folder / "png"
    pictures.mkdir(parents=True, exist_ok=True)
    drawn: dict[tuple[str, str], str] = {}
    for theme in _THEMES:
        made = charts(map_texts(report, visible), theme)
        for name in PNGS:
            picture = pictures / f"{name}-{theme}.png"
            if name not in made:
                picture.unlink(missing_ok=True)  # a picture of an earlier report
                continue
            spec = made[name].to_dict()
            drawn[name, theme] = vl_convert.vegalite_to_svg(spec)
            picture.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    path = folder / "report.html"
    path.write_text(page(report, drawn), encoding="utf-8")
    return path


def page(report: Report, drawn: dict[tuple[str, str], str]) -> str:
    """Return the page. The template escapes every text; drawings are SVG, and vl-convert has escaped their text."""
    report = map_texts(report, lambda text: isolated(visible(text)))
    return (
        _templates()
        .get_template("page.html.j2")
        .render(
            report=report,
            sentences=sentences(report),
            drawings={name: [(theme, drawn[name, theme]) for theme in _THEMES if (name, theme) in drawn] for name in PNGS},
            alerts=sorted(report.alerts, key=lambda row: -row["score"]),
            backout=_by_queue(report.backout, "p50_ms", "p99_ms", "max_ms"),
            rules=_rules(report),
            examples=_examples(report),
            delays=_by_queue(report.delays, "p50_error_ms", "p99_error_ms", "max_error_ms"),
            rows_max=ROWS_MAX,
        )
    )


def _templates() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - optional, needed for a page only

    templates = Environment(
        loader=PackageLoader("mqflow.pipeline.report", ""),
        extensions=["jinja2.ext.do"],
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["breakable"] = _breakable
    templates.globals |= {
        "minute": minute, "age": _age, "number": "{:,}".format, "share": "{:.1%}".format, "text": str,
        "rows_shown": _ROWS_SHOWN, "fingerprint": itemgetter(slice(8)),
    }  # fmt: skip
    return templates


def _by_queue(hours: Sequence[Row], half: str, most: str, longest: str) -> list[Row]:
    """Return a row for each queue from its rows by hour, most messages first."""
    found = []
    for queue in {row["queue"]: None for row in hours}:
        of = [row for row in hours if row["queue"] == queue]
        worst = max(of, key=lambda row: row[longest])
        found.append({
            "queue": queue, "n": sum(row["n"] for row in of), "early": sum(row.get("early", 0) for row in of),
            "usual": median_low(row[half] for row in of), "p99": max(row[most] for row in of), "max": worst[longest],
            "hour": worst["hour"],
        })  # fmt: skip
    return sorted(found, key=lambda row: -row["n"])


def _rules(report: Report) -> list[Row]:
    """Return a row for the messages that no rule takes, and one for each rule."""
    if report.triage is None:
        return []
    left = report.triage.unmatched + report.triage.strays
    # First, because the page cuts a table of many rules.
    return [
        {"number": None, "line": None, "action": "no rule: stays", "first": left, "matching": None, "note": ""},
        *(
            {
                "number": use.number, "line": use.line, "action": use.action, "first": use.first, "matching": use.matching,
                "note": use.note,
            }
            for use in report.triage.rules
        ),
    ]  # fmt: skip


def _examples(report: Report) -> dict[str, Row]:
    """Return the messages that the page names, by MsgId, each with the row that names it first."""
    tables = (report.alerts, report.groups, report.unfinished, report.dead_letters)
    found: dict[str, Row] = {}
    for row in (row for rows in tables for row in rows[:_ROWS_SHOWN]):
        for name in _NAMED:
            if row.get(name):
                found.setdefault(row[name], row)
    return found


def _age(seconds: int) -> str:
    for unit, name, smaller, less in _AGES:
        if seconds >= unit:
            return f"{seconds // unit:,} {name} {seconds % unit // smaller} {less}"
    return f"{seconds} s"


def _breakable(text: str) -> "Markup":
    """Return a long name with places where a line can end."""
    from markupsafe import Markup  # noqa: PLC0415 - as above

    return Markup("<wbr>").join(_BREAKS.split(text))
