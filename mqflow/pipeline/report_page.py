"""Draws a report: one HTML page that needs nothing else, pictures beside it, light and dark; text from messages is escaped.

Charts are Altair's, drawn by vl-convert without a browser; the page holds no script, and forbids any.
"""

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mqflow.pipeline.report_data import Report, Row, sentences

if TYPE_CHECKING:
    import altair as alt

__all__ = ("PNGS", "charts", "page", "write_report")

_INK: Final = {"light": "#1f2933", "dark": "#e4e7eb"}
_PAPER: Final = {"light": "#ffffff", "dark": "#161b22"}
_GRID: Final = {"light": "#d9dee5", "dark": "#323a45"}
#: Told apart by people who see red and green alike.
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_WIDTH: Final = 860
_LABEL_CHARS_MAX: Final = 60
PNGS: Final = ("poison", "culprits", "retries", "delays")
"""What is drawn, by the names of the files."""

_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1f2933;--paper:#fff;--soft:#616e7c;--line:#d9dee5;--box:#f5f7fa}
@media(prefers-color-scheme:dark){:root{--ink:#e4e7eb;--paper:#161b22;--soft:#9aa5b1;--line:#323a45;--box:#1f262f}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:960px;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.7rem}h2{font-size:1.2rem;margin-top:2.5rem;border-bottom:1px solid var(--line);padding-bottom:.3rem}
p.what{color:var(--soft);margin-top:.2rem}ul.said{background:var(--box);padding:1rem 1rem 1rem 2.2rem;border-radius:8px}
table{border-collapse:collapse;width:100%;font-size:.9rem;display:block;overflow-x:auto}
th,td{text-align:left;padding:.35rem .7rem;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}svg{max-width:100%;height:auto}
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
        for name, chart in charts(report, theme).items():
            spec = chart.to_dict()
            drawn[name, theme] = vl_convert.vegalite_to_svg(spec)
            (pictures / f"{name}-{theme}.png").write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
    path = folder / "report.html"
    path.write_text(page(report, drawn), encoding="utf-8")
    return path


def charts(report: Report, theme: str) -> "dict[str, alt.Chart]":
    """Return the charts that there are numbers for, by name."""
    import altair as alt  # noqa: PLC0415 - needed to draw only

    made: dict[str, Any] = {}
    rows = [
        row | {"who": _cut(f"{row['queue']} · {row['handler']}"), "percent": 100 * row["poison_rate"]}
        for row in report.poison_by_hour
    ]
    if rows:
        base = alt.Chart(_data(rows))
        made["poison"] = base.mark_line(point=True, strokeWidth=2).encode(
            x=_hours(),
            y=alt.Y("percent:Q", title="Poison, % of messages"),
            color=alt.Color("who:N", title="Queue · handler", scale=alt.Scale(range=list(_COLOURS))),
        )
    worst = [
        row | {"what": _cut(f"{row['exc_class']} in {row['handler']}")}
        for row in report.culprits
        if row["poisoned"] or row["deliveries"]
    ]
    if worst:
        made["culprits"] = (
            alt.Chart(_data(worst))
            .mark_bar(color=_COLOURS[1])
            .encode(
                x=alt.X("deliveries:Q", title="Failed deliveries"),
                y=alt.Y("what:N", sort="-x", title=None, axis=alt.Axis(labelLimit=360)),
            )
        )
    curve = [
        row | {"who": _cut(f"{row['queue']} · {row['handler']}"), "percent": 100 * row["p_success"]}
        for row in report.retry_curve
    ]
    if curve:
        made["retries"] = (
            alt.Chart(_data(curve))
            .mark_bar()
            .encode(
                x=alt.X("attempt_no:O", title="Attempt", axis=alt.Axis(labelAngle=0)),
                xOffset="who:N",
                y=alt.Y("percent:Q", title="Succeeded, %", scale=alt.Scale(domain=[0, 100])),
                color=alt.Color("who:N", title="Queue · handler", scale=alt.Scale(range=list(_COLOURS))),
            )
        )
    if report.delays:
        late = [
            {"hour": row["hour"], "what": text, "ms": row[name]}
            for row in report.delays
            for name, text in (("p50_error_ms", "half of them within"), ("p99_error_ms", "99 % within"))
        ]
        made["delays"] = (
            alt.Chart(_data(late))
            .mark_line(point=True)
            .encode(
                x=_hours(),
                y=alt.Y("ms:Q", title="Late, ms"),
                color=alt.Color("what:N", title=None, scale=alt.Scale(range=list(_COLOURS))),
            )
        )
    heights = {"culprits": alt.Step(34)}
    return {name: _styled(chart, theme, heights.get(name, 260)) for name, chart in made.items()}


def page(report: Report, drawn: "dict[tuple[str, str], str]") -> str:
    """Return the page. Every text from outside is escaped; drawings are SVG, whose text their maker has escaped."""

    def picture(name: str) -> str:
        return "".join(
            f'<div class="{theme}">{drawn[name, theme]}</div>' for theme in ("light", "dark") if (name, theme) in drawn
        )

    body = [
        "<h1>What became of the messages</h1>",
        f"<p class=what>From {_said(report.first)} to {_said(report.last)}, UTC.</p>",
        "<ul class=said>" + "".join(f"<li>{escape(said)}</li>" for said in sentences(report)) + "</ul>",
    ]
    for title, what, chart, table in _sections(report):
        if chart and ((chart, "light") in drawn or table):
            body.append(f"<h2>{escape(title)}</h2><p class=what>{escape(what)}</p>{picture(chart)}{table}")
        elif not chart and table:
            body.append(f"<h2>{escape(title)}</h2><p class=what>{escape(what)}</p>{table}")
    if report.cut:
        body.append(f"<p>Not all rows are shown of: {escape(', '.join(report.cut))}.</p>")
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
            "Poison is what failed as often as its queue allows (BOTHRESH), or no retry could help. It was put aside.",
            "poison",
            _table(
                report.alerts,
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
            "From the first delivery to the move, by the hour in which it was moved.",
            "",
            _table(
                report.backout,
                (
                    ("hour", "Hour", _said),
                    ("queue", "Queue", str),
                    ("n", "Messages", number),
                    ("p50_ms", "Half within, ms", number),
                    ("p99_ms", "99 % within, ms", number),
                    ("max_ms", "Longest, ms", number),
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
            "How long after it was due a delayed message was delivered. Below zero would be too early.",
            "delays",
            _table(
                report.delays,
                (
                    ("hour", "Hour", _said),
                    ("queue", "Queue", str),
                    ("n", "Messages", number),
                    ("early", "Early", number),
                    ("p50_error_ms", "Half within, ms", number),
                    ("p99_error_ms", "99 % within, ms", number),
                    ("max_error_ms", "Latest, ms", number),
                ),
            ),
        ),
    ]


def _rules(report: Report) -> str:
    if report.triage is None:
        return ""
    rows: list[Row] = [
        {
            "number": use.number, "line": use.line, "action": use.action, "first": use.first, "matching": use.matching,
            "note": use.note,
        }
        for use in report.triage.rules
    ]  # fmt: skip
    rows.append(
        {
            "number": None,
            "line": None,
            "action": "no rule: stays",
            "first": report.triage.unmatched + report.triage.strays,
            "matching": None,
            "note": "",
        }
    )
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
    for row in rows:
        cells = ((name, "" if row[name] is None else shown(row[name])) for name, _, shown in columns)
        lines.append("".join(f"<td{' class=n' if name in numeric else ''}>{escape(text)}</td>" for name, text in cells))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{line}</tr>' for line in lines)}</tbody></table>"


def _hours() -> Any:
    import altair as alt  # noqa: PLC0415 - as above

    axis = alt.Axis(format="%d %b %H:%M", tickCount=6, labelOverlap=True)
    return alt.X("hour:T", title="Hour (UTC)", scale=alt.Scale(type="utc"), axis=axis)


def _data(rows: Sequence[Row]) -> Any:
    import altair as alt  # noqa: PLC0415 - as above

    return alt.InlineData(values=[dict(row) for row in rows])


def _styled(chart: Any, theme: str, height: Any) -> Any:
    ink, grid = _INK[theme], _GRID[theme]
    return (
        chart.properties(width=_WIDTH - 260, height=height, background=_PAPER[theme])
        .configure_axis(
            labelColor=ink, titleColor=ink, gridColor=grid, domainColor=grid, tickColor=grid, labelFontSize=12, titleFontSize=12
        )
        .configure_legend(labelColor=ink, titleColor=ink, labelLimit=220, labelFontSize=12)
        .configure_view(stroke=None)
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LABEL_CHARS_MAX else f"{text[: _LABEL_CHARS_MAX - 3]}..."


def _said(text: str) -> str:
    return text[:16].replace("T", " ")
