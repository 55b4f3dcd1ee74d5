"""`mqflow reason`: explains a reason code and how mqflow reacts to it. Also writes the page docs/reason-codes.md."""

from collections.abc import Iterator
from typing import Any, Final

import click
import msgspec

from mqflow.cli.option_types import json_option
from mqflow.cli.text.terminal import wrapped
from mqflow.mqi.errors import ADVICE, ADVICE_CONNECTING
from mqflow.mqi.reason_codes import Reason, reason_name
from mqflow.policy.did_you_mean import closest
from mqflow.policy.reconnect.reason_classes import CLASSES, Class, classify

__all__ = ("command", "page")

_PREFIX: Final = "MQRC_"

_REACTIONS: Final = {
    Class.RETRY: (
        "mqflow repeats the call immediately. The unit of work was backed out, there was no message, or the buffer was too"
        " small."
    ),
    Class.REOPEN: "mqflow opens the object again, because its handle is no longer valid. The connection is still valid.",
    Class.RECONNECT: (
        "mqflow connects again, because the connection is lost or was refused. The queue manager backs out the unit of work."
    ),
    Class.WAIT: "mqflow repeats the call after a growing pause, because the obstacle can go away.",
    Class.CONFIGURATION: (
        "A person must change something. If such a code comes while the application starts or connects again, the application "
        "ends with the reason. If a running listener gets such a code, only this listener is not ready. It logs the reason, "
        "and tries again after pauses that grow to a minute. The other listeners continue."
    ),
    Class.MESSAGE: (
        "The problem is the message, not the queue. The listener moves the message like a poison message, and gets the next"
        " message."
    ),
}
_TITLES: Final = {
    Class.RETRY: "Retry",
    Class.REOPEN: "Reopen the object",
    Class.RECONNECT: "Reconnect",
    Class.WAIT: "Wait",
    Class.CONFIGURATION: "Stop",
    Class.MESSAGE: "Dispose of the message",
}
_HEAD: Final = """# Reason codes

This page says how mqflow reacts to each reason code of a call. `mqflow reason 2009` explains one code, with advice.
The page is made from the table that mqflow uses (`mqflow reason --page`), and a test compares page and table. IBM publishes no
list of the codes that start a reconnection, so mqflow's authors chose the classes below.
"""
_REST: Final = """
## All others

mqflow has no special reaction to these codes. Most of them occur only in events and in answers to commands, in other kinds of
program, or on other platforms; some are warnings. A call of mqflow can end with such a code, or with a number that is not on
this page. mqflow then waits and repeats the call. So no message is lost, and the log shows the code.
"""


@click.command("reason")
@click.argument("code", required=False)
@click.option("--page", "as_page", is_flag=True, help="Print the page of all reason codes, in Markdown.")
@json_option
def command(code: str | None, *, as_page: bool, as_json: bool) -> None:
    """Explain the reason CODE (2009, CONNECTION_BROKEN or MQRC_CONNECTION_BROKEN), and how mqflow reacts to it."""
    if as_page:
        click.echo(page(), nl=False)
        return
    if code is None:
        raise click.UsageError("Give a CODE: `mqflow reason 2009` or `mqflow reason CONNECTION_BROKEN`.")
    reason = _reason(code)
    found = classify(reason)
    if as_json:
        facts: dict[str, Any] = {
            "reason": int(reason),
            "name": f"{_PREFIX}{reason.name}",
            "class": found.value,
            "listed": reason in CLASSES,
            "done": _REACTIONS[found],
            "advice": ADVICE.get(reason, ""),
            "advice_connecting": ADVICE_CONNECTING.get(reason, ""),
        }
        click.echo(msgspec.json.encode(facts))
        return
    click.echo(reason_name(reason))
    click.echo(wrapped(f"{found.value}: {_REACTIONS[found]}", 2))
    if reason in ADVICE:
        click.echo(wrapped(ADVICE[reason], 2))
    if reason in ADVICE_CONNECTING:
        click.echo(wrapped(f"From MQCONNX: {ADVICE_CONNECTING[reason]}", 2))


# The page has no advice, because each improvement of an advice would change the page.
def page() -> str:
    """Return the page with all reason codes: grouped by how mqflow reacts to them, then in the order of their numbers."""
    return (
        _HEAD + "".join(_section(each) for each in Class) + _REST + "".join(_rows(r for r in Reason if r and r not in CLASSES))
    )


def _section(reason_class: Class) -> str:
    reasons = sorted(reason for reason, its_class in CLASSES.items() if its_class is reason_class)
    return f"\n## {_TITLES[reason_class]}\n\n{_REACTIONS[reason_class]}\n{''.join(_rows(map(Reason, reasons)))}"


def _rows(reasons: Iterator[Reason]) -> Iterator[str]:
    yield "\n| code | name |\n|---|---|\n"
    for reason in reasons:
        yield f"| {int(reason)} | {reason.name} |\n"


def _reason(text: str) -> Reason:
    name = text.upper().removeprefix(_PREFIX)
    known = {each.name: each for each in Reason} | {str(int(each)): each for each in Reason}
    if name in known:
        return known[name]
    if name.isdecimal():
        raise click.BadParameter(f"{text!r} is not a known reason code; `mqflow reason --page` lists all known codes.")
    close = closest(name, (each.name for each in Reason))  # no number: a similar number means something else
    hint = (
        f"Did you mean {close}?" if close else "It takes a number or a name: 2085 or Q_FULL. `mqflow reason --page` lists all."
    )
    raise click.BadParameter(f"{text!r} is not a reason code. {hint}")
