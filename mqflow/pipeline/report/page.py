"""Draws a report: one HTML page that needs nothing else, pictures beside it, light and dark; text from messages is escaped.

What is drawn is `report_charts`' business. The page holds no script, and forbids any.
"""

import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from statistics import median_low
from typing import Any, Final

import msgspec

from mqflow.pipeline.report.charts import PNGS, charts
from mqflow.pipeline.report.data import ROWS_MAX, Report, Row, sentences
from mqflow.pipeline.report.text import isolated, shown, visible

__all__ = ("page", "write_report")

_POISON: Final = (
    "Poison is what failed as often as its queue allows (BOTHRESH), or what no retry could help. It was put aside, and is "
    "counted when it was. Where a handler made more of it in an hour than its own history lets expect (▼), the hour stands "
    "below, the most unusual first, with the message that began it."
)
_ROWS_SHOWN: Final = 12
"""How many rows of a table stand on the page; all of them are in report.json."""
_BREAKS: Final = re.compile(r"(?<=[._/])|(?<=[0-9a-f]{16})(?=[0-9a-f]{16})")
"""Where a long name or identifier may go on in the next line."""
_UNBROKEN_CHARS_MAX: Final = 20

_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1f2933;--paper:#fff;--soft:#616e7c;--line:#d9dee5;--box:#f5f7fa}
@media(prefers-color-scheme:dark){:root{--ink:#e4e7eb;--paper:#161b22;--soft:#9aa5b1;--line:#323a45;--box:#1f262f}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:960px;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.7rem}h2{font-size:1.2rem;margin-top:2.5rem;border-bottom:1px solid var(--line);padding-bottom:.3rem}
p.what{color:var(--soft);margin-top:.2rem}ul.said{background:var(--box);padding:1rem 1rem 1rem 2.2rem;border-radius:8px}
li,p{overflow-wrap:anywhere}table{border-collapse:collapse;width:100%;font-size:.9rem;display:block;overflow-x:auto}
th,td{text-align:left;padding:.35rem .7rem;border-bottom:1px solid var(--line);vertical-align:top}
td.s{white-space:nowrap}td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td.l{overflow-wrap:anywhere;min-width:18ch}.light,.dark{overflow-x:auto}svg{min-width:600px;max-width:100%;height:auto}
.dark{display:none}@media(prefers-color-scheme:dark){.dark{display:block}.light{display:none}}
footer{color:var(--soft);font-size:.85rem;margin-top:3rem}
"""


def write_report(report: Report, folder: Path) -> Path:
    """Write `report.html`, `report.json` and `png/<chart>-<light or dark>.png` in the folder; return where the page is."""
    import vl_convert  # noqa: PLC0415 - 80 MB, needed to draw only

    pictures = folder / "png"
    pictures.mkdir(parents=True, exist_ok=True)
    drawn: dict[tuple[str, str], str] = {}
    for theme in ("light", "dark"):
        made = charts(shown(report, visible), theme)
        for name in PNGS:
            picture = pictures / f"{name}-{theme}.png"
            if name not in made:
                picture.unlink(missing_ok=True)  # of an earlier report: it would be taken for one of this
                continue
            spec = made[name].to_dict()
            drawn[name, theme] = vl_convert.vegalite_to_svg(spec)
            picture.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    path = folder / "report.html"
    path.write_text(page(report, drawn), encoding="utf-8")
    return path


def page(report: Report, drawn: "dict[tuple[str, str], str]") -> str:
    """Return the page. Every text from outside is escaped; drawings are SVG, whose text their maker has escaped."""
    report = shown(report, lambda text: isolated(visible(text)))

    def picture(name: str) -> str:
        return "".join(
            f'<div class="{theme}">{drawn[name, theme]}</div>' for theme in ("light", "dark") if (name, theme) in drawn
        )

    body = [
        "<h1>What became of the messages</h1>",
        f"<p class=what>From {_said(report.first)} to {_said(report.last)}, UTC.</p>" if report.first else "",
        "<ul class=said>" + "".join(f"<li>{escape(said)}</li>" for said in sentences(report)) + "</ul>",
    ]
    for title, what, chart, table in _sections(report):
        if chart and ((chart, "light") in drawn or table):
            body.append(f"<h2>{escape(title)}</h2><p class=what>{escape(what)}</p>{picture(chart)}{table}")
        elif not chart and table:
            body.append(f"<h2>{escape(title)}</h2><p class=what>{escape(what)}</p>{table}")
    if report.cut:
        body.append(
            f"<p>Only the latest {ROWS_MAX:,} rows are drawn, and counted in the tables, of: {escape(', '.join(report.cut))}. "
            "The sentences at the top are about all of them.</p>"
        )
    body.append("<footer>Made by mqflow. The same numbers are in report.json, the pictures in png/.</footer>")
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><meta name="viewport" content="width=device-width">'
        f"<title>What became of the messages</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )


def _sections(report: Report) -> "list[tuple[str, str, str, str]]":
    """Title, explanation, chart and table of each part."""
    number, share = "{:,}".format, "{:.1%}".format
    return [
        (
            "How much is poison, and since when",
            _POISON,
            "poison",
            _table(
                sorted(report.alerts, key=lambda row: -row["score"]),
                (
                    ("hour", "Hour", _said),
                    ("queue", "Queue", str),
                    ("handler", "Handler", str),
                    ("poisoned", "Poison", number),
                    ("poison_rate", "Share", share),
                    ("expected_rate", "Expected", share),
                    ("exc_class", "First exception", str),
                    ("first_msg_id", "First message", str),
                ),
            ),
        ),
        (
            "What makes it",
            "Exceptions out of handlers: how many deliveries each made fail, and for how many messages it was the last word.",
            "culprits",
            _table(
                report.culprits,
                (
                    ("queue", "Queue", str),
                    ("handler", "Handler", str),
                    ("exc_class", "Exception", str),
                    ("deliveries", "Failed deliveries", number),
                    ("poisoned", "Poison", number),
                    ("since", "Since", _said),
                ),
            ),
        ),
        (
            "What retries are good for",
            "How many of the messages that came to a first, second, third delivery succeeded in it.",
            "retries",
            _table(
                report.retry_curve,
                (
                    ("queue", "Queue", str),
                    ("handler", "Handler", str),
                    ("attempt_no", "Attempt", number),
                    ("entered", "Messages", number),
                    ("succeeded", "Succeeded", number),
                    ("p_success", "Share", share),
                ),
            ),
        ),
        (
            "How long until poison is put aside",
            "From the first delivery to the move. Usually: in the middle one of the hours, half of them took no longer.",
            "",
            _table(
                _by_queue(report.backout, "p50_ms", "p99_ms", "max_ms"),
                (
                    ("queue", "Queue", str),
                    ("n", "Messages", number),
                    ("usual", "Usually, ms", number),
                    ("p99", "99 % in the worst hour, ms", number),
                    ("max", "Longest, ms", number),
                    ("hour", "In the hour", _said),
                ),
            ),
        ),
        (
            "Dead letters",
            "Messages on dead-letter queues, by the reason in their headers and the queue they were for.",
            "",
            _table(
                report.dead_letters,
                (
                    ("dlq", "Queue", str),
                    ("reason_name", "Reason", str),
                    ("dlh_dest_q", "Was for", str),
                    ("messages", "Messages", number),
                    ("oldest", "Since", _said),
                ),
            ),
        ),
        (
            "What the rules would do",
            "The rules table tried on these dead letters, first attempt each. Nothing was moved.",
            "",
            _rules(report),
        ),
        (
            "Redrives",
            "Messages that were put back, and what became of them then.",
            "",
            _table(
                report.redrives,
                (
                    ("day", "Day", str),
                    ("queue", "Queue", str),
                    ("redrive_id", "Redrive", str),
                    ("redriven", "Put back", number),
                    ("succeeded", "Succeeded", number),
                    ("poisoned_again", "Poison again", number),
                    ("dead_lettered", "Dead-lettered", number),
                ),
            ),
        ),
        (
            "Are delayed messages on time",
            "How long after it was due a message was delivered that had to wait for it. Below zero would be too early.",
            "delays",
            _table(
                _by_queue(report.delays, "p50_error_ms", "p99_error_ms", "max_error_ms"),
                (
                    ("queue", "Queue", str),
                    ("n", "Messages", number),
                    ("early", "Early", number),
                    ("usual", "Usually, ms", number),
                    ("p99", "99 % in the worst hour, ms", number),
                    ("max", "Latest, ms", number),
                    ("hour", "In the hour", _said),
                ),
            ),
        ),
    ]


def _by_queue(hours: Sequence[Row], half: str, most: str, longest: str) -> list[Row]:
    """Return a row for each queue of those for its hours, most messages first."""
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


def _rules(report: Report) -> str:
    if report.triage is None:
        return ""
    left = report.triage.unmatched + report.triage.strays
    # First, because a table of many rules is cut on the page.
    rows: list[Row] = [
        {"number": None, "line": None, "action": "no rule: stays", "first": left, "matching": None, "note": ""},
        *(
            {
                "number": use.number, "line": use.line, "action": use.action, "first": use.first, "matching": use.matching,
                "note": use.note,
            }
            for use in report.triage.rules
        ),
    ]  # fmt: skip
    number: Callable[[Any], str] = "{:,}".format
    return _table(
        rows,
        (
            ("number", "Rule", number),
            ("line", "Line", number),
            ("action", "Action", str),
            ("first", "Messages", number),
            ("matching", "Would match", number),
            ("note", "", str),
        ),
    )


def _table(rows: Sequence[Row], columns: Sequence[tuple[str, str, Callable[[Any], str]]]) -> str:
    if not rows:
        return ""
    numeric = {name for name, _, _ in columns if any(isinstance(row[name], int | float) for row in rows)}
    head = "".join(f"<th{' class=n' if name in numeric else ''}>{escape(title)}</th>" for name, title, _ in columns)
    lines = []
    for row in rows[:_ROWS_SHOWN]:
        cells = ((name, "" if row[name] is None else shown(row[name])) for name, _, shown in columns)
        lines.append("".join(_cell(text, numeric=name in numeric) for name, text in cells))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    left = len(rows) - _ROWS_SHOWN
    more = f"<p class=what>And {left:,} more, in report.json.</p>" if left > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(text: str, *, numeric: bool) -> str:
    """Return a cell; a long name in it has places where a line may end, a short one none."""
    if len(text) <= _UNBROKEN_CHARS_MAX:
        return f"<td class={'n' if numeric else 's'}>{escape(text)}</td>"
    return f"<td class=l>{'<wbr>'.join(escape(part) for part in _BREAKS.split(text))}</td>"


def _said(text: str) -> str:
    return text[:16].replace("T", " ")
