"""The defects that can be planted in a source: each changes one place, and the source stays valid Python."""

import ast
from pathlib import Path

import pytest

import mqflow
from tests.planting.mutations import mutations

SOURCES = sorted(Path(mqflow.__file__).parent.rglob("policy/poison/*.py"))


def planted(body: str) -> list[str]:
    """Return the bodies of a function with each defect of the body."""
    head = "def function(a, b):\n    "
    source = head + body
    return [each.plant(source).removeprefix(head) for each in mutations(source)]


@pytest.mark.parametrize(
    ("body", "defects"),
    [
        pytest.param("return a < b", ["return a <= b"], id="a bound is one off"),
        pytest.param("return a is not b", ["return a is b"], id="an identity is turned round"),
        pytest.param("return a + 7", ["return a + 8", "return a + (6)"], id="a number is one off"),
        pytest.param("return True", ["return False"], id="a boolean is the other one"),
        pytest.param("return a and b", ["return (a or b)"], id="a conjunction is a disjunction"),
        pytest.param("if a:\n        return b", ["if (not (a)):\n        return b"], id="a condition is turned round"),
        pytest.param("return a if b else 'é'", ["return a if (not (b)) else 'é'"], id="in an expression too"),
        pytest.param("a.run()", ["pass"], id="a call is left out"),
        pytest.param("await a.run()", ["pass"], id="an awaited call is left out"),
        pytest.param("a.b = b", ["pass"], id="an attribute is not set"),
        pytest.param("raise ValueError(a)", ["pass"], id="an error is not raised"),
        pytest.param("return run(a, b, key=len)", ["return run(b, a, key=len)"], id="two arguments change places"),
        pytest.param("return max(a, b)", [], id="the order of these two does not matter"),
        pytest.param("return max(*a, b)", [], id="the place of unpacked arguments is unknown"),
        pytest.param("a = b", [], id="a name that is never set is no defect that a program can have for long"),
        pytest.param("return f'{a + 1}'", [], id="sentences for people stay"),
        pytest.param("assert a < 1", [], id="assertions stay"),
        pytest.param("assert_never(a)", [], id="so do the assertions for the type checker"),
    ],
)
def test_a_function_can_have_these_defects(body: str, defects: list[str]) -> None:
    assert defects == planted(body)


def test_the_functions_of_a_class_and_in_a_function_have_defects_of_their_own() -> None:
    source = "class A:\n    def outer(self):\n        def inner():\n            return 1\n        return inner\n"

    assert ["inner", "inner"] == [each.function for each in mutations(source)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_each_defect_changes_one_place_and_leaves_valid_python(path: Path) -> None:
    source = path.read_text()

    for each in mutations(source):
        changed = each.plant(source)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)), each.name
