"""`mqflow reason`: what a reason code means and what is done about it. Also writes the page docs/reason-codes.md."""

from collections.abc import Iterator
from typing import Any, Final

import click
import msgspec

from mqflow.cli.connection_options import json_option
from mqflow.mqi.errors import ADVICE, ADVICE_CONNECTING
from mqflow.mqi.reason_codes import Reason, reason_name
from mqflow.policy.did_you_mean import closest
from mqflow.policy.reconnect.reason_classes import CLASSES, Class, classify

__all__ = ("command", "page")

_PREFIX: Final = "MQRC_"

_DONE: Final = {
    Class.RETRY: "It is called again at once: the unit of work was backed out, nothing was there, or the buffer was too small.",
    Class.REOPEN: "The object is opened again: its handle is of no use any more, the connection is.",
    Class.RECONNECT: "Another connection is got: this one is lost, or could not be had; its unit of work is backed out.",
    Class.WAIT: "There is a pause, growing, and it is called again: what is in the way may go away.",
    Class.CONFIGURATION: (
        "A person has to change something. At the start, and of a connection that was lost, it ends the application, which "
        "says why. What is taken from a listener that runs holds up that one only: it says why, is not ready, and tries again, "
        "in the end once a minute."
    ),
    Class.MESSAGE: "It is this message, not the queue: it is disposed of, and the next one is handled.",
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

What mqflow does about each reason code that a call may end with. `mqflow reason 2009` says it for one, with what to do.
This page is made from the table that decides (`mqflow reason --page`), and a test compares them. IBM publishes no list of the
codes that start a reconnection; the classes are this project's.
"""
_REST: Final = """
## All others

These come as events, as answers to commands, from other kinds of program or other platforms, or as warnings with nothing to
do. Should a call that mqflow makes end with one, or with a number that is not on this page, the caller waits and tries again:
that loses nothing, does not spin, and is seen.
"""


@click.command("reason")
@click.argument("code", required=False)
@click.option("--page", "as_page", is_flag=True, help="Print the page of all reason codes, in Markdown.")
@json_option
def command(code: str | None, as_page: bool, as_json: bool) -> None:  # noqa: FBT001 - click passes options by name
    """Say what the reason CODE means (2009, CONNECTION_BROKEN or MQRC_CONNECTION_BROKEN) and what mqflow does about it."""
    if as_page:
        click.echo(page(), nl=False)
        return
    if code is None:
        raise click.UsageError("Which code? `mqflow reason 2009` or `mqflow reason CONNECTION_BROKEN`.")
    reason = _reason(code)
    found = classify(reason)
    if as_json:
        facts: dict[str, Any] = {
            "reason": int(reason),
            "name": f"{_PREFIX}{reason.name}",
            "class": found.value,
            "listed": reason in CLASSES,
            "done": _DONE[found],
            "advice": ADVICE.get(reason, ""),
            "advice_connecting": ADVICE_CONNECTING.get(reason, ""),
        }
        click.echo(msgspec.json.encode(facts))
        return
    click.echo(reason_name(reason))
    click.echo(f"{found.value}: {_DONE[found]}")
    if reason in ADVICE:
        click.echo(ADVICE[reason])
    if reason in ADVICE_CONNECTING:
        click.echo(f"Where connecting ends with it (MQCONNX): {ADVICE_CONNECTING[reason]}")


# The page has no advice: whoever writes a better sentence should not have to know of a page.
def page() -> str:
    """Return the page of all reason codes: by class, then by number."""
    return (
        _HEAD + "".join(_section(each) for each in Class) + _REST + "".join(_rows(r for r in Reason if r and r not in CLASSES))
    )


def _section(of: Class) -> str:
    reasons = sorted(reason for reason, its in CLASSES.items() if its is of)
    return f"\n## {_TITLES[of]}\n\n{_DONE[of]}\n{''.join(_rows(map(Reason, reasons)))}"


def _rows(reasons: Iterator[Reason]) -> Iterator[str]:
    yield "\n| code | name |\n|---|---|\n"
    for reason in reasons:
        yield f"| {int(reason)} | {reason.name} |\n"


def _reason(text: str) -> Reason:
    name = text.upper().removeprefix(_PREFIX)
    known = {each.name: each for each in Reason} | {str(int(each)): each for each in Reason}
    if name in known:
        return known[name]
    if name.isdecimal():  # the number that looks most alike means something else entirely
        raise click.BadParameter(f"{text!r} is no reason code that is known here; `mqflow reason --page` lists those that are.")
    close = closest(name, known)
    raise click.BadParameter(f"{text!r} is no reason code." + (f" Did you mean {close}?" if close else ""))
