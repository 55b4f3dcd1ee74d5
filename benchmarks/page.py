"""The measured part of docs/performance.md: tables, and a profile for every missed budget. It only makes text from figures."""

from collections.abc import Iterator

from benchmarks.budgets import ADDED_CPU_US, FRAMEWORK_ELSEWHERE, STARTING, Bar
from benchmarks.measurement import Compared, Measured, Started, missed
from benchmarks.transports import in_memory

__all__ = ("BEGIN", "END", "render", "replaced", "replaced_between")

BEGIN = "<!-- measured: begin (python -m benchmarks writes what stands between these two lines) -->"
END = "<!-- measured: end -->"


def replaced(page: str, text: str) -> str:
    """Return the page with the text between its markers. Raises `ValueError` if the page has no markers."""
    return replaced_between(page, text, BEGIN, END)


def replaced_between(page: str, text: str, first: str, last: str) -> str:
    """Return the page with the text between these two markers. Raises `ValueError` if the page has no such markers."""
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"The page has no {first!r} followed by {last!r}: nowhere to write the figures to.")
    return f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}"


def render(measured: Measured, date: str) -> str:
    """Return the measured part of the page, in Markdown."""
    parts = [
        *_machine(measured, date),
        *_consuming(measured),
        *_added(measured),
        *_observing(measured),
        *_handled(measured),
        *_process_rows(measured.started),
        *_misses(measured),
    ]
    return "\n".join(parts)


def _machine(measured: Measured, date: str) -> Iterator[str]:
    machine, effort = measured.machine, measured.effort
    yield f"Measured on {date} by `python -m benchmarks`."
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| machine | {machine.cpus} x {machine.cpu}, {machine.memory_gib} GiB, {machine.system} |"
    yield f"| software | Python {machine.python}; {machine.packages} |"
    yield f"| each figure | median of {effort.pairs} pairs, run in turns; of {effort.processes} fresh processes |"
    yield f"| load average at the end | {measured.load_average:.2f} |"
    yield ""


def _consuming(measured: Measured) -> Iterator[str]:
    yield "### Against a plain loop on the same transport"
    yield ""
    yield (
        "| goal | transport | unit of work | connections | mqflow, messages/s | loop, messages/s | ratio "
        "| must | moonshot | | others' CPU |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for each in measured.compared:
        budget, pairs = each.budget, each.pairs
        bar = _bar(budget.ratio, pairs.ratio) if budget.ratio else "| | "
        yield (
            f"| {budget.goal} | {budget.transport} | {budget.unit_of_work} | {budget.connections} | {pairs.rate:,.0f} "
            f"| {pairs.baseline_rate:,.0f} | {pairs.ratio:.2f} | {bar} | {each.busy:.0%} |"
        )
    yield ""


def _added(measured: Measured) -> Iterator[str]:
    yield "### Processor time that mqflow adds to each message"
    yield ""
    yield (
        "The figures cover everything except transport, decoding and handler, without telemetry. "
        "They count all threads, user and system."
    )
    yield ""
    yield "| goal | transport | unit of work | connections | added µs | must | moonshot | |"
    yield "|---|---|---|---|---|---|---|---|"
    for each in measured.compared:
        budget, added_us = each.budget, each.pairs.added_us
        goal, bar = ("4", _bar(ADDED_CPU_US, added_us)) if budget.make is in_memory else ("", "| | ")
        yield f"| {goal} | {budget.transport} | {budget.unit_of_work} | {budget.connections} | {added_us:.1f} | {bar} |"
    yield ""
    yield (
        "If calls leave the thread, most of the added time is the hand-over between two threads. In the durable rows the "
        "framework waits for the disk on one thread while the loop blocks on it; the ratio above shows the effect."
    )
    yield ""


def _observing(measured: Measured) -> Iterator[str]:
    yield "### Processor time that telemetry adds to each message"
    yield ""
    yield (
        "Compared with the same application without telemetry: embedded, in memory, unit of work 32. "
        "The SDK's exporter sends nothing."
    )
    yield ""
    yield "| goal | | added µs | must | moonshot | | others' CPU |"
    yield "|---|---|---|---|---|---|---|"
    for each in measured.observed:
        added_us = each.pairs.added_us
        yield (
            f"| {each.budget.goal} | {each.budget.what} | {added_us:.1f} | {_bar(each.budget.added_us, added_us)} "
            f"| {each.busy:.0%} |"
        )
    yield ""


def _handled(measured: Measured) -> Iterator[str]:
    yield "### The DLQ handler against a loop that gets, puts and commits"
    yield ""
    yield "Both use one connection, and a unit of work for each message. The handler has a table of four rules."
    yield ""
    yield "| where | handler, messages/s | loop, messages/s | ratio | others' CPU |"
    yield "|---|---|---|---|---|"
    for each in measured.handled:
        pairs = each.pairs
        yield f"| {each.where} | {pairs.rate:,.0f} | {pairs.baseline_rate:,.0f} | {pairs.ratio:.2f} | {each.busy:.0%} |"
    yield ""


def _process_rows(started: Started) -> Iterator[str]:
    yield "### Processes"
    yield ""
    yield "| goal | | measured | must | moonshot | | FastStream, elsewhere |"
    yield "|---|---|---|---|---|---|---|"
    for budget, figure in zip(STARTING, started.figures, strict=True):
        yield (
            f"| {budget.goal} | {budget.what} | {figure:.0f} {budget.unit} | {_bar(budget.bar, figure)} "
            f"| {budget.elsewhere:g} {budget.unit} |"
        )
    yield ""
    yield (
        f"An interpreter that does nothing takes {started.interpreter_ms:.0f} ms, `import mqflow` alone "
        f"{started.bare_import_ms:.0f} ms. Other processes had {started.busy:.0%} of the processors."
    )
    yield ""
    yield "| on the way to the first durable message | ms after the start | processor ms |"
    yield "|---|---|---|"
    for phase in started.phases:
        yield f"| {phase.name} | {phase.after_ms:.0f} | {phase.cpu_ms:.0f} |"
    yield ""
    here = started.faststream_import_ms
    yield f"*Elsewhere*: {FRAMEWORK_ELSEWHERE}."
    if here is None:
        yield "It is not installed here, so no ratio is given."
    else:
        yield f"Here `import faststream.nats` took {here:.0f} ms: mqflow's import is {started.figures[2] / here:.2f} of it."
    yield ""


def _misses(measured: Measured) -> Iterator[str]:
    slow = [each for each in measured.compared if missed(each)]
    late = [*_dear(measured), *_late(measured.started)]
    yield "### Misses"
    yield ""
    if not slow and not late:
        yield "None: every *must* was met in this run."
    yield from late
    yield ""
    for each in slow:
        yield from _profile(each)


def _dear(measured: Measured) -> Iterator[str]:
    for each in measured.observed:
        if each.pairs.added_us > each.budget.added_us.must:
            most = f"{each.pairs.added_us:.1f} µs, and the limit is {each.budget.added_us.must:.0f}"
            yield (
                f"- goal {each.budget.goal}, {each.budget.what}: {most}; the SDK alone takes {measured.sdk_us:.1f} µs "
                "to start and end a span that is not sampled."
            )


def _late(started: Started) -> Iterator[str]:
    for budget, figure in zip(STARTING, started.figures, strict=True):
        if figure > budget.bar.must:
            most = f"{figure:.0f} {budget.unit}, and the limit is {budget.bar.must:.0f}"
            yield f"- goal {budget.goal}, {budget.what}: {most}; see the phases above."


def _profile(each: Compared) -> Iterator[str]:
    budget, pairs = each.budget, each.pairs
    yield (
        f"- goal {budget.goal}, {budget.transport}, unit of work {budget.unit_of_work}, connections {budget.connections}: "
        f"ratio {pairs.ratio:.2f}, {pairs.added_us:.1f} µs added. The most expensive functions of the event loop's "
        "thread, without waiting. The profiler makes Python functions look more expensive:"
    )
    yield ""
    yield "    | function | calls per message | own µs per message |"
    yield "    |---|---|---|"
    for hotspot in each.profile:
        yield f"    | `{hotspot.where}` | {hotspot.calls:.2f} | {hotspot.own_us:.2f} |"
    yield ""


def _bar(bar: Bar, figure: float) -> str:
    return f"{round(bar.must, 2):g} | {round(bar.moonshot, 2):g} | {bar.met(figure)}"
