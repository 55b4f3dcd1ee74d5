"""Draws the charts of a report, light or dark, with Altair; vl-convert makes pictures of them without a browser.

Each of the worst few queues has its own colour; all other queues share one colour. This file knows rows, and writes no file.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from mqflow.pipeline.extras import alt
from mqflow.pipeline.history.time_axis import axis
from mqflow.pipeline.report.data import Report, Row
from mqflow.pipeline.report.text import isolated, visible

if TYPE_CHECKING:
    Chart = alt.Chart | alt.LayerChart | alt.FacetChart

__all__ = ("PAPER", "PNGS", "charts", "short")

PNGS: Final = ("poison", "culprits", "retries", "delays")
"""The charts, by the names of their files."""
PAPER: Final = {"light": "#ffffff", "dark": "#161b22"}
_INK: Final = {"light": "#1f2933", "dark": "#e4e7eb"}
_GRID: Final = {"light": "#d9dee5", "dark": "#323a45"}
#: Colours that people with red-green colour blindness can tell apart; the last is for all other queues.
_COLOURS: Final = {
    "light": ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#8795a1"),
    "dark": ("#56b4e9", "#f07f35", "#2ec19a", "#e59ac5", "#f0c040", "#8795a1"),
}
_APART: Final = 5
"""How many pairs of queue and handler have their own colour."""
_OTHERS: Final = "all others"
_WIDTH: Final = 780
_HEIGHT: Final = 240
_LABEL_CHARS_MAX: Final = 30
_BESIDE_CHARS_MAX: Final = 30
_POINTS_MAX: Final = 100
_CULPRITS_SHOWN: Final = 12
_ATTEMPTS_SHOWN: Final = 8


def charts(report: Report, theme: str) -> "dict[str, Chart]":
    """Return the charts that have data, by name."""
    drawn = {
        "poison": _poison(report, theme),
        "culprits": _culprits(report, theme),
        "retries": _retries(report, theme),
        "delays": _delays(report, theme),
    }
    return {name: chart for name, chart in drawn.items() if chart is not None}


def short(name: str) -> str:
    """Return the name of an exception for a label: the class without its packages."""
    return name.rpartition(".")[2]


def _poison(report: Report, theme: str) -> "Chart | None":
    """Draw the poison messages of each step of time as a bar, with a mark above the steps that have an alert."""
    rows = [_within(row, report) for row in report.poison_over_time if row["messages"]]
    if not rows:
        return None
    series_of, summed = _series_of(rows, lambda row: row["poisoned"]), Counter[tuple[str, str, str]]()
    for row in rows:
        summed[row["start"], row["end"], series_of(row)] += row["poisoned"]
    names = _in_order({series for _, _, series in summed})
    data, height = list[Row](), Counter[str]()
    for (start, end, series), n in sorted(summed.items(), key=lambda item: names.index(item[0][2])):
        data.append({"start": start, "end": end, "series": series, "from": height[start], "to": height[start] + n})
        height[start] += n
    first, last = report.first or rows[0]["start"], max(row["end"] for row in rows)
    x = alt.X(
        "start:T",
        title=_title(report),
        scale=alt.Scale(type="utc", domain=[_milliseconds(first), _milliseconds(last)]),
        axis=_time_axis(first, last),
    )
    y = alt.Y("from:Q", title="Poison messages", axis=alt.Axis(tickMinStep=1))
    bars = alt.Chart(_data(data)).mark_rect().encode(x=x, x2="end:T", y=y, y2="to:Q", color=_colour(names, theme))
    ends = {row["start"]: row["end"] for row in rows}
    alarmed = {_start(max(alert["hour"], report.first), ends) for alert in report.alerts} - {""}
    marks = [{"at": at, "end": ends[at], "n": height[at], "mark": "▼"} for at in sorted(alarmed)]
    if not marks:
        return _styled(bars, theme)
    above = alt.Chart(_data(marks)).mark_text(dy=-9, size=11, color=_INK[theme]).encode(x="at:T", y="n:Q", text="mark:N")
    return _styled(alt.layer(bars, above), theme)


def _culprits(report: Report, theme: str) -> "Chart | None":
    worst = [
        row | {"what": f"{_cut(short(row['exc_class']))} · {_cut(row['handler'])}"}
        for row in report.culprits
        if row["deliveries"]
    ]
    if not worst:
        return None
    chart = (
        alt.Chart(_data(sorted(worst, key=itemgetter("deliveries"), reverse=True)[:_CULPRITS_SHOWN]))
        .mark_bar(color=_COLOURS[theme][1])
        .encode(
            x=alt.X("deliveries:Q", title="Failed deliveries", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("what:N", sort="-x", title=None, axis=alt.Axis(labelLimit=300)),
        )
    )
    return _styled(chart, theme, width=_WIDTH - 300, height=alt.Step(30))


def _retries(report: Report, theme: str) -> "Chart | None":
    rows = [row for row in report.retry_curve if row["attempt_no"] <= _ATTEMPTS_SHOWN]
    retried = {_queue_and_handler(row) for row in rows if row["attempt_no"] > 1}
    rows = [row for row in rows if _queue_and_handler(row) in retried]
    if not any(row["succeeded"] for row in rows):  # the bars have no height, and the table has the numbers
        return None
    series_of, sums = (
        _series_of(rows, lambda row: row["entered"] if row["attempt_no"] > 1 else 0),
        defaultdict[tuple[str, int], list[int]](lambda: [0, 0]),
    )
    for row in rows:
        both = sums[series_of(row), row["attempt_no"]]
        both[0] += row["entered"]
        both[1] += row["succeeded"]
    data: list[Row] = [
        {"series": series, "attempt": at, "percent": 100 * done / of} for (series, at), (of, done) in sums.items() if of
    ]
    chart = (
        alt.Chart(_data(data))
        .mark_bar()
        .encode(
            x=alt.X("attempt:O", title="Delivery", axis=alt.Axis(labelAngle=0)),
            xOffset="series:N",
            y=alt.Y("percent:Q", title="Succeeded, %", scale=alt.Scale(domain=[0, 100])),
            color=_colour(_in_order({row["series"] for row in data}), theme),
        )
    )
    return _styled(chart, theme)


def _delays(report: Report, theme: str) -> "Chart | None":
    worst: dict[str, list[int]] = {}
    for row in report.delays:
        half, most = worst.setdefault(row["hour"], [row["p50_error_ms"], row["p99_error_ms"]])
        worst[row["hour"]] = [max(half, row["p50_error_ms"]), max(most, row["p99_error_ms"])]
    if not worst:
        return None
    names = ("half of them within", "99 % within")
    data = [{"hour": at, "series": name, "ms": ms} for at, both in worst.items() for name, ms in zip(names, both, strict=True)]
    first, last = (at(worst) for at in (min, max))
    chart = (
        alt.Chart(_data(data))
        .mark_line(point=len(worst) <= _POINTS_MAX)
        .encode(
            x=alt.X("hour:T", title="Hour (UTC)", scale=alt.Scale(type="utc"), axis=_time_axis(first, last)),
            y=alt.Y("ms:Q", title="Late, ms"),
            color=_colour(names, theme),
        )
    )
    return _styled(chart, theme)


def _time_axis(first: str, last: str) -> "alt.Axis":
    along = axis(datetime.fromisoformat(first), datetime.fromisoformat(last))
    return alt.Axis(format=along.words, values=[_milliseconds(each.isoformat()) for each in along.marks])


def _milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1_000)


def _title(report: Report) -> str:
    return {"5 minutes": "Time (UTC)", "1 hour": "Hour (UTC)", "1 day": "Day (UTC)"}[report.step]


def _within(row: Row, report: Report) -> Row:
    """Return the step. If it begins before the first counted event, the returned step begins at this event."""
    return row | {"start": max(row["start"], report.first)} if report.first < row["end"] else row


def _start(at: str, starts: Iterable[str]) -> str:
    """Return the start of the last step that begins at this time or before it; empty if there is no such step."""
    return max((start for start in starts if start <= at), default="")


def _queue_and_handler(row: Row) -> str:
    return f"{_cut(row['queue'])} · {_cut(row['handler'])}"


def _series_of(rows: Sequence[Row], weight: Callable[[Row], int]) -> Callable[[Row], str]:
    """Return a function that names the series of a row: queue and handler for the heaviest few, else "all others"."""
    weights = Counter[str]()
    for row in rows:
        weights[_queue_and_handler(row)] += weight(row)
    most = [series for series, _ in weights.most_common(_APART if len(weights) > _APART + 1 else _APART + 1)]
    return lambda row: series if (series := _queue_and_handler(row)) in most else _OTHERS


def _in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda series: (series == _OTHERS, series))


def _colour(names: Sequence[str], theme: str) -> "alt.Color":
    colours = list(_COLOURS[theme])[: len(names)]
    if _OTHERS in names:
        colours[-1] = _COLOURS[theme][-1]
    columns = 1 if max(map(len, names)) > _BESIDE_CHARS_MAX else 3
    legend = alt.Legend(orient="top", columns=columns)
    return alt.Color("series:N", title=None, scale=alt.Scale(domain=list(names), range=colours), legend=legend)


def _data(rows: Sequence[Row]) -> "alt.InlineData":
    return alt.InlineData(values=[dict(row) for row in rows])


def _styled(chart: "Chart", theme: str, *, width: int = _WIDTH, height: "int | alt.Step" = _HEIGHT) -> "Chart":
    ink, grid = _INK[theme], _GRID[theme]
    styled: Chart = (
        chart.properties(width=width, height=height, background=PAPER[theme], padding=12)
        .configure_axis(
            labelColor=ink, titleColor=ink, gridColor=grid, domainColor=grid, tickColor=grid,
            labelFontSize=13, titleFontSize=13, titleFontWeight="normal",
        )
        .configure_legend(labelColor=ink, labelLimit=340, labelFontSize=13)
        .configure_view(stroke=None)
    )  # fmt: skip
    return styled


def _cut(text: str) -> str:
    """Shorten a name for a label. The cut is in the middle, because queues of one application often begin alike."""
    text = visible(text)
    half = _LABEL_CHARS_MAX // 2
    return isolated(text if len(text) <= _LABEL_CHARS_MAX else f"{text[: half - 1]}...{text[2 - half :]}")
