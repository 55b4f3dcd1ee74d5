"""The work of `mqflow dlq check`: finds errors and warnings, and the action of each rule on real messages. Moves no message."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import click
from msgspec import Struct, field

from mqflow.app.captures import read_captures
from mqflow.cli.connection_options import connected
from mqflow.cli.dead_letters.report import print_json, print_problems, prints_json
from mqflow.cli.messages.browse import browse
from mqflow.cli.text.exit_codes import EXIT_FAILED
from mqflow.cli.text.terminal import note, read_text, safe, show_table
from mqflow.many_verbs import leads_back, open_to_put
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import reason_name
from mqflow.policy.dead_letters.actions import Discard, Ignore, Intent, Redirect, choose, dead_letter, matchers
from mqflow.policy.dead_letters.lint import lint
from mqflow.policy.dead_letters.rules import RulesTable, parse
from mqflow.verbs import Connection, ObjectDescriptor

__all__ = ("Tallies", "Tally", "intent_text", "run_check", "tallied", "target_check")

_TARGETS_SHOWN = 3
_TARGET = OpenOption.OUTPUT | OpenOption.PASS_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING

Messages = Iterator[tuple[MessageDescriptor, bytes]]


class Tally(Struct):
    """The number of messages for which one rule is the first that matches, by target."""

    messages: int = 0
    targets: Counter[str] = field(default_factory=Counter[str])

    @property
    def shown(self) -> str:
        """Return the most frequent targets, in words."""
        shown = [f"{target} ({count:,})" for target, count in self.targets.most_common(_TARGETS_SHOWN)]
        more = len(self.targets) - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more > 0 else "") or "never matched"


class Tallies(Struct):
    """The first actions of a rules table on some messages."""

    #: By the name of the rule, or "no rule" for messages that no rule matches.
    rules: dict[str, Tally]
    #: The number of messages that do not begin with an MQDLH.
    strays: int = 0
    #: The targets that cannot be opened or that lead back, each with the reason. A full or inhibited target is not noticed.
    problems: dict[str, str] = field(default_factory=dict[str, str])


def run_check(rules: Path, against: str | None, url: str | None, *, each: bool) -> int:
    """Check the table and return the exit code; it is 1 if the table has errors."""
    text = read_text(rules)
    table = parse(text)
    if not isinstance(table, RulesTable):
        print_problems(table)
        note(f"{rules}: {'1 error' if len(table) == 1 else f'{len(table)} errors'}. The DLQ handler would handle no message.")
        return EXIT_FAILED
    tell = _tell if each else lambda *_: None
    captured = Path(against) if against and Path(against).is_file() else None
    for finding in lint(table, text, queue="" if captured else against or ""):
        if prints_json():
            print_json("finding", line=finding.line, text=finding.text)
        else:
            click.echo(safe(str(finding)))
    note(f"{rules}: no errors in {'1 rule' if len(table.rules) == 1 else f'{len(table.rules)} rules'}.")
    if captured is not None:
        found = ((message.descriptor, message.data) for message in read_captures(captured))
        _show(tallied(table, found, lambda _: "", tell))
    elif against:
        with ExitStack() as stack:
            connection = stack.enter_context(connected(url))
            found = ((got.descriptor, got.body) for got in browse(connection, against))
            _show(tallied(table, found, target_check(connection, against), tell))
    return 0


def tallied(
    table: RulesTable,
    found: Messages,
    check: Callable[[Redirect], str],
    tell: Callable[[bytes, str, str], None] = lambda *_: None,
) -> Tallies:
    """Count for each rule the messages that match it before any other rule, by target. No action is carried out.

    `check` returns why a move to a target would fail, or an empty text. `tell` receives MsgId, rule and target of each
    message.
    """
    rules = matchers(table.rules)
    tallies = Tallies({matcher.name: Tally() for matcher in rules})
    problems: dict[str, str] = {}
    for descriptor, data in found:
        letter = dead_letter(descriptor, data)
        if letter is None:
            tallies.strays += 1
            continue
        chosen = choose(rules, letter, 0)
        name = chosen.matcher.name if chosen.matcher else "no rule"
        tally = tallies.rules.setdefault(name, Tally())
        tally.messages += 1
        target = intent_text(chosen.intent)
        tally.targets[target] += 1
        if isinstance(chosen.intent, Redirect) and target not in problems:
            problems[target] = check(chosen.intent)
        tell(descriptor.message_id, name, target)
    tallies.problems = {target: problem for target, problem in problems.items() if problem}
    return tallies


def _tell(message_id: bytes, rule: str, target: str) -> None:
    if prints_json():
        print_json("letter", message_id=message_id, rule=rule, target=target)
    else:
        click.echo(f"{message_id.hex()}  {rule}: {safe(target)}")


def _show(tallies: Tallies) -> None:
    """Print the number of messages of each rule and of messages without an MQDLH, and the targets that have a problem."""
    if prints_json():
        for name, tally in tallies.rules.items():
            print_json("rule", rule=name, messages=tally.messages, targets=tally.targets)
        print_json("no MQDLH", messages=tallies.strays)
        for target, problem in tallies.problems.items():
            print_json("target", target=target, problem=problem)
        return
    rows = [(name, f"{tally.messages:,}", tally.shown) for name, tally in tallies.rules.items()]
    show_table(("rule", "messages", "first action"), rows, numbers=frozenset({1}))
    if tallies.strays:
        subject = "1 message does" if tallies.strays == 1 else f"{tallies.strays:,} messages do"
        click.echo(f"{subject} not begin with an MQDLH, and would stay.")
    for target, problem in tallies.problems.items():
        click.echo(safe(f"{target}: {problem}"))


def target_check(connection: Connection, queue: str) -> Callable[[Redirect], str]:
    """Return a function that opens a target. The function returns the problem, or an empty text."""
    source = connection.open(queue, OpenOption.BROWSE)

    def check(to: Redirect) -> str:
        try:
            handle = open_to_put(connection, ObjectDescriptor(to.queue, queue_manager=to.queue_manager), _TARGET)
        except MQIError as error:
            return f"the move would fail, {reason_name(error.reason)}."
        comes_back = leads_back(handle, source)
        connection.close(handle)
        return "the move leads back to the queue of the messages, and would fail." if comes_back else ""

    return check


def intent_text(intent: Intent) -> str:
    """Return in words what happens to a message."""
    match intent:
        case Redirect():
            target = intent.queue + (f" of {intent.queue_manager}" if intent.queue_manager else "")
            return f"put to {target or 'no queue'}" + (" with its MQDLH" if intent.keep_header else "")
        case Discard():
            return "discarded"
        case Ignore():
            return "stays"
