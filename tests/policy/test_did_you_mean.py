"""The accepted word that a misspelt word most likely means."""

import pytest

from mqflow.policy.did_you_mean import closest


@pytest.mark.parametrize(
    ("word", "found"),
    [
        pytest.param("persistant", "persistent", id="one letter is wrong"),
        pytest.param("priority", "priority", id="the word itself"),
        pytest.param("colour", "", id="no word is similar"),
        pytest.param("persistent" + "x" * 2, "persistent", id="as long as the longest word that is compared"),
        pytest.param("persistent" + "x" * 3, "", id="too long for a typing error"),
    ],
)
def test_a_misspelt_word_means_the_most_similar_one(word: str, found: str) -> None:
    assert found == closest(word, ("persistent", "priority"), chars_max=12)
