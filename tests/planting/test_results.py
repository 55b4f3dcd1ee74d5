"""The counts of the verdicts of all runs."""

from pathlib import PurePath

from tests.planting import results
from tests.planting.mutations import mutations
from tests.planting.results import HUNG, NOTICED, SURVIVED, Figures, Verdict


def test_equal_defects_of_one_function_have_names_of_their_own() -> None:
    named = [name for name, _ in results.names(PurePath("a.py"), mutations("def f():\n    g()\n    g()\n"))]

    assert ["a.py f: removed statement: g() -> pass", "a.py f: removed statement: g() -> pass (2)"] == named


def test_a_defect_without_effect_counts_neither_as_noticed_nor_as_missed() -> None:
    verdicts = {
        "noticed": Verdict("cli", NOTICED, NOTICED),
        "noticed now": Verdict("cli", NOTICED, SURVIVED),
        "hung": Verdict("wire", HUNG, HUNG),
        "without effect": Verdict("wire", SURVIVED, SURVIVED),
    }

    counted = results.figures(verdicts, {"without effect": "why"})

    assert counted == {
        "": Figures(planted=4, equivalent=1, noticed=2, noticed_at_first=1),
        "cli": Figures(planted=2, equivalent=0, noticed=2, noticed_at_first=1),
        "wire": Figures(planted=2, equivalent=1, noticed=0, noticed_at_first=0),
    }
    assert 200 / 3 == counted[""].percent


def test_each_defect_without_effect_was_planted_and_missed() -> None:
    verdicts = [*results.read().items(), *results.read(results.MUTANTS).items()]
    missed = {name for name, each in verdicts if each.said != NOTICED}

    assert set() == set(results.equivalents()) - missed
