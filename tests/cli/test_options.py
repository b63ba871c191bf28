import pytest

from wingbeat.cli.options import arms
from wingbeat.engine.settings import DraftSettings
from wingbeat.errors import UsageError

DEFAULTS = DraftSettings(steps=3, topk=2, nodes=6)


def test_an_arm_takes_what_it_does_not_say_from_the_options():
    assert arms("none, ngram:5,eagle3,eagle3:4:1,eagle3:6:4:16", DEFAULTS) == {
        "plain": DraftSettings(drafter="none", steps=3, topk=2, nodes=6),
        "ngram:5": DraftSettings(drafter="ngram", steps=5, topk=1, nodes=6),
        "eagle3": DraftSettings(drafter="eagle3", steps=3, topk=2, nodes=6),
        "eagle3:4:1": DraftSettings(drafter="eagle3", steps=4, topk=1, nodes=6),
        "eagle3:6:4:16": DraftSettings(drafter="eagle3", steps=6, topk=4, nodes=16),
    }


def test_steps_that_an_arm_names_are_always_taken():
    found = arms("eagle3,eagle3:4,eagle3@extend", DraftSettings(steps=6, auto=True))
    assert (found["eagle3"].auto, found["eagle3:4"].auto) == (True, False)
    assert found["eagle3@extend"] == DraftSettings(steps=6, auto=True, extend=True)


@pytest.mark.parametrize(
    "names",
    [" ", "eagle3@prefill", "plain,", "eagle3:", "eagle3:4:1:5:9", "eagle3:-1", "eagle3:0", "plain,none"],
)
def test_names_that_mean_no_arm_are_refused(names):
    with pytest.raises(UsageError):
        arms(names, DEFAULTS)
