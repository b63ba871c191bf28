import json

import pytest

from wingbeat.errors import CorruptError, NotFoundError, StorageError, UnsupportedError
from wingbeat.probe import document
from wingbeat.probe.difference import compare, missing
from wingbeat.probe.document import Fingerprint
from wingbeat.probe.reading import Reading, not_applicable, unknown
from wingbeat.report import fingerprint as report


def v(value):
    return Reading("value", value)


BEFORE = {
    "boot_id": v("b1"), "gpu.count": v(1), "gpu.0.power.limit": v(700.0), "gpu.0.clock.sm": unknown("read while idle"),
    "gpu.0.pcie.replays": v(3), "gpu.0.temperature": v(40), "uptime": v(10.0), "installed.torch": v("2.10.0"),
    "python.packages": v(2), "installed.pillow": v("1"), "process.environ": v(1), "env.NCCL_PROTO": v("LL"),
    "nvidia.driver": v("590.48.01"),
}  # fmt: skip
AFTER = {
    **BEFORE, "gpu.0.power.limit": v(350.0), "gpu.0.pcie.replays": v(9), "uptime": v(90.0), "installed.pillow": v("2"),
    "env.NCCL_ALGO": v("Ring"),
}  # fmt: skip
del AFTER["env.NCCL_PROTO"]


def names(changes):
    return [change.name for change in changes]


def test_what_changed_comes_with_the_important_first():
    found = compare(BEFORE, AFTER)
    assert names(found.changed) == ["gpu.0.power.limit", "env.NCCL_ALGO", "env.NCCL_PROTO", "installed.pillow"]
    assert names(found.unsure) == ["gpu.0.clock.sm"]
    assert names(found.moved) == ["gpu.0.pcie.replays", "uptime"]
    assert found.moved[0].grew == 6
    assert found.same == 7
    limit = found.changed[0]
    assert (limit.importance, limit.predicts) == (3, "draft, verify and prefill change by one ratio; acceptance stays")
    assert found.changed[2].after == not_applicable("absent")


def test_counters_of_two_boots_did_not_grow():
    found = compare(BEFORE, {**AFTER, "boot_id": v("b2")})
    assert {change.grew for change in found.moved} == {None}
    assert "boot_id" in names(found.changed)


def test_unknown_is_never_the_same():
    hidden = {"nvidia.driver": unknown("no permission")}
    assert names(compare(hidden, hidden).unsure) == ["nvidia.driver"]
    assert compare(hidden, hidden).same == 0


def test_a_field_that_is_missing_is_absent_only_where_its_family_was_read():
    assert missing("env.NCCL_PROTO", {"process.environ": v(0)}).state == "not applicable"
    assert missing("env.NCCL_PROTO", {"process.environ": unknown("no permission")}) == unknown("no permission")
    assert missing("env.NCCL_PROTO", {}).state == "unknown"
    assert missing("gpu.3.clock.sm", {"gpu.count": not_applicable("none")}).state == "not applicable"
    assert missing("nvidia.driver", BEFORE).state == "unknown"


def taken(readings, **changed):
    return Fingerprint(**{"taken": "2026-11-29", "seconds": 0.5, "where": "box", "readings": readings, **changed})


def test_the_difference_as_text():
    text = report.render_difference(taken(BEFORE), taken(AFTER, where="box later"), compare(BEFORE, AFTER))
    lines = text.splitlines()
    assert "  gpu.0.power.limit  700.0 W -> 350.0 W (-50.0%)" in lines
    assert "    would show as: draft, verify and prefill change by one ratio; acceptance stays" in lines
    assert "  env.NCCL_PROTO  LL -> not applicable: absent" in lines
    assert "  gpu.0.pcie.replays  3 -> 9 (grew by 6)" in lines
    assert lines.index("Cannot be told:") > lines.index("Changed. Seldom matters:")
    assert "Fields that are the same: 7; minor ones that cannot be told: 0." in text


def test_devices_that_changed_alike_share_a_line():
    before = {f"gpu.{index}.power.limit": v(700) for index in range(8)}
    after = {**{name: v(350) for name in before}, "gpu.3.power.limit": v(300)}
    text = report.render_difference(taken({}), taken({}), compare(before, after))
    assert "  gpu.0.power.limit and 6 more  700 W -> 350 W (-50.0%)" in text
    assert "  gpu.3.power.limit  700 W -> 300 W (-57.1%)" in text


def test_of_long_values_the_difference_is_shown():
    line = " ".join(f"option{index}=on" for index in range(40))
    before, after = {"kernel.command_line": v(f"{line} iommu=pt")}, {"kernel.command_line": v(f"{line} iommu=on")}
    text = report.render_difference(taken({}), taken({}), compare(before, after))
    assert "... iommu=pt ... -> ... iommu=on ..." in text


def test_measured_values_are_the_same_within_their_share():
    def clock(median, samples):
        return {"load.gpu.0.clock.sm": v({"min": 1, "median": median, "max": 2000, "n": samples})}

    assert compare(clock(1800, 8), clock(1810, 9)).same == 1
    assert names(compare(clock(1800, 8), clock(1300, 8)).changed) == ["load.gpu.0.clock.sm"]
    steal = {"load.cpu.steal": v(0.0)}
    assert compare(steal, {"load.cpu.steal": v(0.4)}).same == 1
    assert compare(steal, {"load.cpu.steal": v(9.0)}).same == 0
    share = {"load.gpu.0.slowed": v({})}
    assert compare(share, {"load.gpu.0.slowed": v({"sw_power_cap": 0.4})}).same == 0
    assert compare(steal, {"load.cpu.steal": not_applicable("x")}).same == 0


def sampled(name, *values, load="products", **more):
    low, middle, high = sorted(values)
    value = {"min": low, "median": middle, "max": high, "n": more.get("n", 8)}
    return {"load.samples": v(8), **({"load.kind": v(load)} if load else {}), f"load.gpu.0.{name}": v(value)}


def test_a_sampled_link_is_the_same_however_often_it_was_read():
    assert compare(sampled("pcie.generation", 5, 5, 5), sampled("pcie.generation", 5, 5, 5, n=7)).changed == []
    for other in ((5, 5, 1), (4, 5, 5), (4, 4, 4)):
        found = compare(sampled("pcie.generation", 5, 5, 5), sampled("pcie.generation", *other))
        assert names(found.changed) == ["load.gpu.0.pcie.generation"]


def test_what_was_sampled_under_another_load_is_not_compared():
    first, second = (sampled("clock.sm", 1800, 1800, 1800, load=load) for load in ("products", "a server"))
    found = compare(first, second)
    assert names(found.changed) == ["load.kind"]
    assert names(found.unsure) == ["load.gpu.0.clock.sm"]
    assert found.unsure[0].before.reason == "1800 under products, and the other side had another load"
    assert names(compare(first, sampled("clock.sm", 1800, 1800, 1800, load="")).unsure)[0] == "load.gpu.0.clock.sm"
    assert compare(first, first).unsure == []


def test_no_difference_is_not_called_fine():
    same = compare({"a": unknown("x"), "nvidia.driver": v("1")}, {"a": unknown("x"), "nvidia.driver": v("1")})
    text = report.render_difference(taken({}), taken({}), same)
    assert "Nothing that was read on both sides changed." in text
    assert "Fields that are the same: 1; minor ones that cannot be told: 1." in text
    hidden = {"board": unknown("no permission")}
    text = report.render_difference(taken({}), taken({}), compare(hidden, hidden))
    assert "Cannot be told:\n  board  unknown: no permission (A and B)" in text


def test_a_fingerprint_as_text():
    text = report.render(taken({**BEFORE, "board": unknown("not there")}, notes=["Partial: x."]))
    assert text.startswith("Fingerprint of box, 2026-11-29 (14 fields, 0.50 s)\nPartial: x.")
    assert "  nvidia.driver  590.48.01" in text
    assert "Could not be read:\n  gpu.0.clock.sm  unknown: read while idle\n  board  unknown: not there" in text


def test_long_values_are_cut_in_the_text_alone():
    found = taken({"kernel.command_line": v("x" * 500)})
    assert "x ..." in report.render(found)
    assert document.document(found)["fields"]["kernel.command_line"]["value"] == "x" * 500


def test_a_fingerprint_in_a_file(tmp_path):
    before = taken(BEFORE, notes=["Partial: x."])
    document.save(before, tmp_path / "a.json")
    assert document.load(tmp_path / "a.json") == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", CorruptError), ("[]", CorruptError), ("{}", CorruptError), ('{"fingerprint": 99}', UnsupportedError),
        ('{"fingerprint": 1, "fields": {"a": {"odd": 1}}}', CorruptError),
        ('{"fingerprint": 1, "fields": []}', CorruptError),
    ],
)  # fmt: skip
def test_files_that_are_none(tmp_path, text, error):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(error, match=r"a\.json"):
        document.load(tmp_path / "a.json")


def test_files_that_cannot_be_read_or_written(tmp_path):
    with pytest.raises(NotFoundError, match="No such file"):
        document.load(tmp_path / "none.json")
    with pytest.raises(StorageError, match="choose another place with --out"):
        document.save(taken({}), tmp_path / "none" / "a.json")


def test_the_difference_as_json():
    found = json.loads(json.dumps(report.document(compare(BEFORE, AFTER))))
    assert found["changed"][0]["before"]["value"] == 700.0
    assert found["same"] == 7
