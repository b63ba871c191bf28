"""Causes planted in real runs: one scenario on the engine, as small as it can be, and how the score is counted."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import planted_real
from planted_real_cases import SCENARIOS, Scenario, Way, ways

BY_NAME = {one.name: one for one in SCENARIOS}


def test_there_are_enough_of_both_kinds():
    caused = [one for one in SCENARIOS if one.right]
    assert len(caused) >= 16
    assert len(SCENARIOS) - len(caused) >= 6


def test_a_patch_is_seen_in_the_records_and_what_is_finished_is_not_run_again(tmp_path, monkeypatch):
    monkeypatch.setattr(planted_real, "ASKED", {**planted_real.ASKED, "limit": 1, "max_tokens": 6, "context": 512})
    scenario = BY_NAME["sleep_in_draft"]
    planted_real.measure(scenario, tmp_path, 1)
    found = planted_real.found(scenario, tmp_path)
    facts = {fact.name: fact for fact in found.facts.values()}
    assert facts["wingbeat.source"].state == "changed"
    assert facts["installed.torch"].state == facts["run.prompts"].state == facts["setting.steps"].state == "same"
    kept = {path.name: path.read_bytes() for path in tmp_path.glob("*.jsonl")}
    assert set(kept) == {"sleep_in_draft-before.jsonl", "sleep_in_draft-after.jsonl"}
    planted_real.measure(scenario, tmp_path, 1)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.jsonl")} == kept
    assert "sleep_in_draft" in planted_real.table({scenario: found})


@pytest.mark.parametrize(("name", "text"), [("wrong_rope", '"rope_theta": 10.0'), ("wrong_taps", "1, 8, 20")])
def test_a_head_is_another_in_one_thing(tmp_path, name, text):
    before, after = BY_NAME[name].make(tmp_path)
    config = Path(after.asked["head"], "config.json").read_text()
    assert before == Way()
    assert text in config.replace("\n", "").replace("  ", "")


def test_only_the_right_cause_first_counts():
    caused = Scenario("a", ("cores",), ways(Way(), Way()))
    assert caused.fits("cores", accused=True)
    assert not caused.fits("tenants", accused=True)
    assert not caused.fits("cannot tell", accused=False)
    innocent = replace(caused, right=())
    assert innocent.fits("cannot tell", accused=False)
    assert not innocent.fits("cores", accused=True)
