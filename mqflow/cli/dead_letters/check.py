"""`mqflow dlq check` at work: errors, what is seldom meant, and what each rule would do with real messages. Touches nothing."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import click
from msgspec import Struct, field

from mqflow.app.captures import read_captures
from mqflow.cli.connection_options import connected
from mqflow.cli.dead_letters.run import tell_problems
from mqflow.cli.messages.browse import messages
from mqflow.cli.text.exit_codes import EXIT_FAILED
from mqflow.cli.text.terminal import note, safe, show_table
from mqflow.cli.text.text_input import read_text
from mqflow.many_verbs import leads_back, open_to_put
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import reason_name
from mqflow.policy.dead_letters.actions import Discard, Ignore, Intent, Redirect, choose, dead_letter, matchers
from mqflow.policy.dead_letters.lint import lint
from mqflow.policy.dead_letters.rules import RulesTable, parse
from mqflow.verbs import Connection, ObjectDescriptor

__all__ = ("run_check",)

_TARGETS_SHOWN = 3
_TARGET = OpenOption.OUTPUT | OpenOption.PASS_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING

Messages = Iterator[tuple[MessageDescriptor, bytes]]


class _Tally(Struct):
    """What a rule would do."""

    messages: int = 0
    targets: Counter[str] = field(default_factory=Counter[str])


def run_check(rules: Path, against: str | None, url: str | None, *, each: bool) -> int:
    """Check the table and return the exit code: 1 for one with errors."""
    text = read_text(rules)
    table = parse(text)
    if not isinstance(table, RulesTable):
        tell_problems(table)
        note(f"{rules}: {'1 error' if len(table) == 1 else f'{len(table)} errors'}. The DLQ handler would touch no message.")
        return EXIT_FAILED
    captured = Path(against) if against and Path(against).is_file() else None
    for finding in lint(table, text, queue="" if captured else against or ""):
        click.echo(safe(str(finding)))
    note(f"{rules}: no errors in {'1 rule' if len(table.rules) == 1 else f'{len(table.rules)} rules'}.")
    if captured is not None:
        _against(table, ((one.descriptor, one.data) for one in read_captures(captured)), lambda _: "", each=each)
    elif against:
        with ExitStack() as stack:
            connection = stack.enter_context(connected(url))
            found = ((got.descriptor, got.body) for got in messages(connection, against))
            _against(table, found, _looker(connection, against), each=each)
    return 0


def _against(table: RulesTable, found: Messages, trouble: Callable[[Redirect], str], *, each: bool) -> None:
    """Print, rule by rule, what the first attempt on each message would be."""
    asked = matchers(table.rules)
    tallies: dict[str, _Tally] = {matcher.name: _Tally() for matcher in asked}
    strays = 0
    troubles: dict[str, str] = {}
    for descriptor, data in found:
        letter = dead_letter(descriptor, data)
        if letter is None:
            strays += 1
            continue
        chosen = choose(asked, letter, 0)
        name = chosen.matcher.name if chosen.matcher else "no rule"
        tally = tallies.setdefault(name, _Tally())
        tally.messages += 1
        target = _said(chosen.intent)
        tally.targets[target] += 1
        if isinstance(chosen.intent, Redirect) and target not in troubles:
            troubles[target] = trouble(chosen.intent)
        if each:
            click.echo(f"{descriptor.message_id.hex()}  {name}: {safe(target)}")
    rows = [(name, f"{tally.messages:,}", _targets(tally.targets)) for name, tally in tallies.items()]
    show_table(("rule", "messages", "what would happen first"), rows, numbers=frozenset({1}))
    if strays:
        begin = "1 message does" if strays == 1 else f"{strays:,} messages do"
        click.echo(f"{begin} not begin with an MQDLH, and would stay.")
    for target, said in troubles.items():
        if said:
            click.echo(safe(f"{target}: {said}"))


def _looker(connection: Connection, queue: str) -> Callable[[Redirect], str]:
    """Return what says why a target would refuse, as far as opening it tells."""
    source = connection.open(queue, OpenOption.BROWSE)

    def look(to: Redirect) -> str:
        try:
            handle = open_to_put(connection, ObjectDescriptor(to.queue, queue_manager=to.queue_manager), _TARGET)
        except MQIError as error:
            return f"it would fail, {reason_name(error.reason)}."
        comes_back = leads_back(handle, source)
        connection.close(handle)
        return "it leads back to the queue that the messages are on, and would fail." if comes_back else ""

    return look


def _said(intent: Intent) -> str:
    match intent:
        case Redirect():
            where = intent.queue + (f" of {intent.queue_manager}" if intent.queue_manager else "")
            return f"put to {where or 'no queue'}" + (" with its MQDLH" if intent.keep_header else "")
        case Discard():
            return "discarded"
        case Ignore():
            return "stays"


def _targets(counts: Counter[str]) -> str:
    shown = [f"{target} ({count:,})" for target, count in counts.most_common(_TARGETS_SHOWN)]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "") or "never matched"
