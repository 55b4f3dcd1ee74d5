"""Actions: the steps of a state machine, their weights and their arguments; and two ways to run them.

`walk` runs actions at random from a seed, some ten thousand a second, and shortens a failure. Hypothesis chooses actions more
cleverly, but is several times slower.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

__all__ = ("Action", "Machine", "action", "actions_of", "shrinkable", "walk")

F = TypeVar("F", bound=Callable[..., None])


class Machine(Protocol):
    """A state machine with actions."""

    def begin(self) -> None:
        """Make the first state."""

    def check(self) -> None:
        """Assert the invariants after an action."""

    def end(self) -> None:
        """Assert the invariants at the end."""

    def close(self) -> None:
        """Close everything."""


class Action:
    """One action: its name, its weight, its precondition, and the values of each argument."""

    def __init__(self, weight: int, when: Callable[[Any], bool], domains: dict[str, Sequence[Any]]) -> None:
        self.name = ""
        self.weight = weight
        self.when = when
        self.domains = domains


Step = tuple[Action, dict[str, Any]]


def action(*, weight: int = 2, when: Callable[[Any], bool] = lambda _: True, **domains: Sequence[Any]) -> Callable[[F], F]:
    """Make the method below an action."""

    def declare(function: F) -> F:
        declared = Action(weight, when, domains)
        declared.name = function.__name__
        vars(function)["action"] = declared
        return function

    return declare


def actions_of(machine: type[Machine]) -> list[Action]:
    """Return the actions of a machine, in the order of their names."""
    found = (getattr(getattr(machine, name), "action", None) for name in sorted(dir(machine)))
    return [each for each in found if each is not None]


def walk(machine: type[Machine], *, seed: int, steps: int, shorten: bool = True) -> int:
    """Run `steps` random actions and return their number. A failure contains a short program that fails too."""
    dice = random.Random(seed)  # noqa: S311 - repeatable, not secret
    lots = [each for each in actions_of(machine) for _ in range(each.weight)]
    trail: list[Step] = []

    def draw(walker: Machine) -> Step:
        while not (chosen := dice.choice(lots)).when(walker):
            pass
        trail.append((chosen, {name: dice.choice(domain) for name, domain in chosen.domains.items()}))
        return trail[-1]

    try:
        _run(machine, (draw for _ in range(steps)))
    except Exception as error:
        program = _shortened(machine, trail) if shorten else trail
        lines = [f"{each.name}({', '.join(f'{name}={value!r}' for name, value in drawn.items())})" for each, drawn in program]
        error.add_note(f"walk(seed={seed}) failed at step {len(trail)}; so does:\n  " + "\n  ".join(lines))
        raise
    return len(trail)


def _run(machine: type[Machine], draws: Iterable[Callable[[Machine], Step]]) -> None:
    walker = machine()
    try:
        walker.begin()
        walker.check()
        for draw in draws:
            chosen, arguments = draw(walker)
            if chosen.when(walker):
                getattr(walker, chosen.name)(**arguments)
                walker.check()
        walker.end()
    finally:
        walker.close()


def _fails(machine: type[Machine], program: Sequence[Step]) -> bool:
    try:
        _run(machine, [partial(_given, step) for step in program])
    except Exception:  # noqa: BLE001 - every failure counts
        return True
    return False


def _given(step: Step, _: Machine) -> Step:
    return step


def _shortened(machine: type[Machine], program: list[Step]) -> list[Step]:
    """Leave out steps that the failure does not need: halves first, single steps last."""
    chunk = len(program)
    while chunk:
        start = 0
        while start < len(program):
            shorter = program[:start] + program[start + chunk :]
            if _fails(machine, shorter):
                program = shorter
            else:
                start += chunk
        chunk //= 2
    return program


def shrinkable(machine: type[Machine], *, examples: int, steps: int, phases: Sequence[Phase] = tuple(Phase)) -> None:
    """Let Hypothesis run the actions: it chooses more cleverly than `walk`, and shrinks a failure."""

    class Shrinkable(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.walker = machine()

        @initialize()
        def begin(self) -> None:
            self.walker.begin()

        @invariant()
        def check(self) -> None:
            self.walker.check()

        def teardown(self) -> None:
            try:
                self.walker.end()
            finally:
                self.walker.close()

    for each in actions_of(machine):
        setattr(Shrinkable, each.name, _rule(each))
    how = settings(max_examples=examples, stateful_step_count=steps, deadline=None, phases=phases, derandomize=True)
    run_state_machine_as_test(Shrinkable, settings=how)


def _rule(each: Action) -> Callable[..., None]:
    def act(self: Any, **arguments: Any) -> None:
        getattr(self.walker, each.name)(**arguments)

    act.__name__ = each.name
    strategies: dict[str, Any] = {name: st.sampled_from(domain) for name, domain in each.domains.items()}
    declare: Any = rule(**strategies)  # untyped: the types of Hypothesis fit no function with these arguments
    guarded: Callable[..., None] = precondition(lambda self: each.when(self.walker))(declare(act))
    return guarded
