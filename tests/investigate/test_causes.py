"""Causes that others bring about, that explain too little, or that were put back: seen first in real runs."""

import math

import pytest
from scenarios import cycles, launches, measured, sampled

from wingbeat.investigate import courses, mla
from wingbeat.investigate.case import investigate
from wingbeat.investigate.facts import Fact
from wingbeat.investigate.side import side

SLOWER = (1.49, 1.5, 1.51)


def of(before, after):
    return investigate(side("before", before, "eagle3"), side("after", after, "eagle3"))


def verdict(found, key):
    one = next(one for one in found.findings if one.cause.key == key)
    return one.verdict, one.reason


def asked(record, **settings):
    record.requested = {**record.requested, **settings}
    return record


def test_a_path_that_follows_from_the_number_format_is_no_cause_of_its_own():
    native = asked(measured("a", launches()), dtype="bfloat16", path="native")
    found = of(native, asked(measured("b", launches(SLOWER)), dtype="float32", path="eager"))
    assert found.accused[0].cause.key == "precision"
    assert verdict(found, "captured")[0] == "ruled out"
    assert "follows from the number format" in verdict(found, "captured")[1]
    eager = asked(measured("b", launches(SLOWER)), dtype="bfloat16", path="eager", eager=True)
    assert verdict(of(native, eager), "captured")[0] == "consistent"


def test_output_lengths_that_follow_from_other_text_are_no_cause_of_their_own():
    def short(**named):
        made = launches(**named)
        return [{arm: {name: _cut(facts) for name, facts in by.items()} for arm, by in one.items()} for one in made]

    before = measured("a", launches())
    assert "speed" in verdict(of(asked(before), asked(measured("b", short()))), "output_length")[1]
    found = of(asked(before, template="x"), asked(measured("b", short(verify=40.0)), template="y"))
    assert verdict(found, "output_length")[1].startswith("changed, but the lengths follow from other text")
    assert verdict(found, "prompts")[0] == "consistent"


def _cut(facts):
    facts.requests[0].new_tokens //= 2
    return facts


def course(*shape, factors=(0.99, 1.0, 1.01)):
    """A run whose cycles take these times, in tenths of the run."""
    times = [ms for ms in shape for _ in range(160 // len(shape))]
    return sampled("x", [
        {"cycle_ms": [by * ms for ms in times], "tokens_per_second": [2000 / by / (sum(shape) / len(shape))] * 160}
        for by in factors
    ])  # fmt: skip


WARMING, STEADY, SLOW = (60.0, *[20.0] * 9), [20.0] * 10, [40.0] * 10


def test_a_course_says_how_much_it_explains():
    one = side("x", course(*WARMING), "eagle3")
    assert courses.warmed(one) == pytest.approx(math.log(24 / 20), rel=0.05)
    assert courses.drifted(one) == 0
    rising = side("x", course(*[20.0] * 5, *[30.0] * 5), "eagle3")
    assert courses.drifted(rising) == pytest.approx(math.log(25 / 20), rel=0.05)
    assert courses.warmed(rising) == 0
    once = course(*WARMING)
    once.launches[1:] = course(*STEADY).launches[1:]
    assert courses.warmed(side("x", once, "eagle3")) == pytest.approx(math.log1p(0.2 / 3), rel=0.05)


@pytest.mark.parametrize(("key", "shape"), [("warmup", WARMING), ("leak", [*[20.0] * 5, *[30.0] * 5])])
def test_it_must_be_the_slower_side_and_explain_enough(key, shape):
    assert verdict(of(course(*STEADY), course(*shape)), key)[0] == "consistent"
    assert verdict(of(course(*shape), course(*SLOW)), key)[0] == "ruled out"
    assert "it explains" in verdict(of(course(*STEADY), course(*[3 * ms for ms in shape])), key)[1]


@pytest.mark.parametrize(("seconds", "state"), [(10.0, "changed"), (100.0, "same")])
def test_counters_count_by_the_second(seconds, state):
    runs = [measured("a", launches()), measured("b", launches(SLOWER))]
    for run, lasted, grew in zip(runs, (10.0, seconds), (50, 500), strict=True):
        for launch in run.launches:
            launch.fingerprint, launch.fingerprint_after = (
                {name: {"state": "value", "value": value} for name, value in fields.items()}
                for fields in ({"uptime": 7.0, "process.switches": 3},
                               {"uptime": 7.0 + lasted, "process.switches": 3 + grew})
            )  # fmt: skip
    fact = of(*runs).facts["process.switches"]
    assert (fact.state, fact.before, fact.after) == (state, "+5/s", f"+{500 / seconds:g}/s")
    assert (fact.rise > 0) == (state == "changed")


@pytest.mark.parametrize(
    ("factors", "ended", "words"),
    [
        ((0.99, 1.0, 1.01), "confirmed", "moved the speed back by 100% of the change"),
        ((1.49, 1.5, 1.51), "ruled out", "did not certainly change the speed"),
        ((0.8, 1.2, 1.9), "consistent", "more launches would tell"),
    ],
)
def test_what_was_tried_confirms_refutes_or_cannot_tell(factors, ended, words):
    before = asked(measured("a", launches()), dtype="bfloat16")
    after = asked(measured("b", launches(SLOWER)), dtype="float32")
    sides = [side(name, run, "eagle3") for name, run in (("a", before), ("b", after))]
    tried = {"precision": side("c", asked(measured("c", launches(factors)), dtype="bfloat16"), "eagle3")}
    found = investigate(*sides, tried=tried)
    assert verdict(found, "precision")[0] == ended
    assert words in verdict(found, "precision")[1]


def seen(record, **fields):
    """The record with a fingerprint of these fields ("__" stands for ".")."""
    readings = {name.replace("__", "."): {"state": "value", "value": read} for name, read in fields.items()}
    for launch in record.launches:
        launch.fingerprint = readings
    return record


def alike(key, settings=None, **fields):
    """The verdict on a cause where both sides are the same in all that is known, and one is slower."""
    slow = launches(verify=32.0) if key == "speculation" else launches(SLOWER)
    sides = [measured("a", launches()), measured("b", slow)]
    found = of(*(asked(seen(one, gpu__count=0, **fields), **(settings or {})) for one in sides))
    return verdict(found, key)[0]


HIDDEN = {"state": "unknown", "reason": "no permission"}
ABSENT = {"state": "not applicable", "reason": "no NVIDIA device here"}
GOVERNED = {"cpu__governor": "performance", "cpu__boost": "on"}
TWO_NODES = {"node0": "0-3", "node1": "4-7"}
PLACED = {"numa__balancing": "0", "process__affinity": "0-7"}
DRAWN = {"temperature": 1.0, "top_p": 1.0, "top_k": 0}


@pytest.mark.parametrize(
    ("key", "same", "missing"),
    [
        ("cpu", {**GOVERNED, "load__cpu__frequency": 3000.0}, GOVERNED),
        ("code", {"python__packages": 9, "git__commit": "a"}, {"git__commit": "a"}),
        ("library", {"python__packages": 9, "process__maps": 99}, {"python__packages": 9}),
        ("speculation", {"settings": {"steps": 3, "topk": 1, "nodes": 4}}, {"settings": {"steps": 3}}),
        ("sampling", {"settings": DRAWN}, {"settings": {"temperature": 1.0}}),
        ("sampling", {"settings": {"temperature": 0.0}}, {"settings": {"temperature": 0.5, "top_p": 1.0}}),
        ("cores", {"cpu__usable_cores": 2, "cgroup__cpu__quota": 2.0, "torch__threads": 2},
         {"cpu__usable_cores": 2, "cgroup__cpu__quota": 2.0}),
        ("server", {"process__argv": ["serve", "--tp", "2"]}, {"process__argv": [""]}),
        ("numa", {"numa__nodes": {"node0": "0-7"}}, {"numa__nodes": TWO_NODES, **PLACED}),
        ("numa", {"numa__nodes": TWO_NODES, **PLACED, "workers__affinity": ["0-3"]}, {"numa__nodes": TWO_NODES}),
    ],
)  # fmt: skip
def test_it_takes_all_that_decides_to_rule_a_cause_out(key, same, missing):
    assert alike(key, **same) == "ruled out"
    assert alike(key, **missing) == "not observable"


def test_the_same_prompts_may_have_been_asked_by_another_template():
    def run(**settings):
        return of(*(asked(measured("x", launches(accepted=taken)), **settings) for taken in ((2, 1, 0, 1), (1, 0))))

    assert verdict(run(), "prompts")[0] == "not observable"
    assert verdict(run(template="a"), "prompts")[0] == "ruled out"


def test_the_driver_is_that_of_the_devices_that_are_there():
    def run(factors, **fields):
        record = seen(measured("x", launches(factors)), gpu__count=2, **fields)
        hidden = {"amd.driver": HIDDEN, "amdgpu.module": HIDDEN, "nvidia.driver": ABSENT, "nvidia.module": ABSENT}
        for launch in record.launches:
            launch.fingerprint = hidden | launch.fingerprint
        return record

    def both(**fields):
        return verdict(of(run((0.99, 1.0, 1.01), **fields), run(SLOWER, **fields)), "driver")

    assert both()[0] == "not observable"
    amd = both(amd__driver="6.12", amdgpu__module="6.12")
    assert amd == ("ruled out", "amd.driver: 6.12 on both sides; amdgpu.module: 6.12 on both sides")


def test_a_few_launches_of_one_kind_do_not_say_that_there_is_no_other():
    many = (0.99, 1.0, 1.01, 0.995, 1.005)
    one_kind = of(measured("a", launches(many)), measured("b", launches(tuple(1.5 * by for by in many))))
    assert verdict(one_kind, "launch")[0] == "ruled out"
    few = of(measured("a", launches()), measured("b", launches(SLOWER)))
    assert verdict(few, "launch")[0] == "not observable"


@pytest.mark.parametrize(("factor", "state"), [(1.5, "ruled out"), (1.08, "not observable")])
def test_a_small_change_of_speed_is_not_told_from_what_calibrations_vary_by(factor, state):
    sides = [measured("a", launches()), measured("b", launches([factor * by for by in (0.999, 1, 1.001)]))]
    for one, rate in zip(sides, (100.0, 92.0), strict=True):
        for launch in one.launches:
            launch.calibration = {"before": {"memory_read": rate, "matrix_product": 9.0, "launch": 5.0}}
    assert verdict(of(*sides), "platform")[0] == state


def counted(what, over, name="tokens_per_cycle"):
    record = measured("x", launches())
    record.source = "sglang-bench"
    for launch in record.launches:
        launch.effective = {"eagle3": {"definitions": {name: {"what": what, "over": over}}}}
    return record


def test_figures_count_the_same_only_where_something_says_so():
    assert of(measured("a", launches()), measured("b", launches())).facts["run.definitions"].state == "same"
    life = of(counted("all", "since the server started: warm-up included"), counted("all", "requests"))
    assert "since the server started" in verdict(life, "definition")[1]
    assert life.found.obstacles
    other = of(counted("the first", "requests", "ttft_ms"), counted("the second", "requests", "ttft_ms"))
    assert other.facts["run.definitions"].state == "same"
    assert not other.found.obstacles
    noted = [measured(name, launches()) for name in "ab"]
    for one in noted:
        one.source = "noted"
    assert of(*noted).facts["run.definitions"].state == "unknown"


def test_what_a_boot_set_anew_is_told_with_it():
    before = seen(measured("a", launches()), boot_id="1", aspm="performance", gpu__count=0)
    after = seen(measured("b", launches(SLOWER)), boot_id="2", aspm="powersave", gpu__count=0)
    one = next(one for one in of(before, after).findings if one.cause.key == "reboot")
    assert one.notes == ["A boot sets anew, and it is another: aspm: performance before, powersave after."]


@pytest.mark.parametrize(
    ("added", "words"), [(lambda context: 6.0, "a constant"), (lambda context: context / 100, "it grows with context")]
)
def test_contexts_say_whether_time_is_added_once_or_for_each_token(added, words):
    def run(name, more):
        by = {arm: {**one} for arm, one in launches((1.0,), prompts=2)[0].items()}
        for place, start in enumerate((100, 2000)):
            by["eagle3"][f"p{place}"] = cycles(2.0, lambda context: 20.0 + more(context), start=start)
        return measured(name, [by] * 3)

    before = asked(run("a", lambda context: 0.0), eager=False)
    found = of(before, asked(run("b", added), eager=True))
    one = next(one for one in found.findings if one.cause.key == "captured")
    assert words in one.notes[0]


def told(**settings):
    shape = {"num_hidden_layers": 61, "num_attention_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
             "qk_nope_head_dim": 128, "v_head_dim": 128, "tp": 8}  # fmt: skip
    facts = [Fact(f"setting.{key}", "same", None, value) for key, value in (shape | settings).items()]
    return mla.notes({fact.name: fact for fact in facts}, None)


def test_the_backend_of_verify_is_that_of_prefill_unless_decode_was_asked_for():
    backends = {"prefill_attention_backend": "cutlass_mla", "decode_attention_backend": "flashmla"}
    assert "14.3 GB to move a device, not 0.58 GB" in told()[1]
    assert "cutlass_mla runs verify absorbed, by a prefill kernel" in told(**backends)[-1]
    assert "flashmla runs verify absorbed," in told(**backends, speculative_attention_mode="decode")[-1]
    assert "CUTLASS_MLA runs verify expanded" in told(attention_backend="CUTLASS_MLA")[-1]


@pytest.mark.parametrize(("slow", "expected"), [(36.0, "ruled out"), (50.0, "consistent")])
def test_groups_of_launches_that_the_machine_s_own_work_shows_are_no_state_of_the_process(slow, expected):
    def run(factors):
        record = measured("x", launches(factors))
        for launch, factor in zip(record.launches, factors, strict=True):
            rate = {"memory_read": 50.0 if factor < 1.2 else slow}
            launch.calibration = {"before": rate, "after": rate}
        return record

    found = of(run((1.0, 1.01, 1.4, 1.41)), run((1.405, 1.0, 1.395, 1.005)))
    assert verdict(found, "launch")[0] == expected
