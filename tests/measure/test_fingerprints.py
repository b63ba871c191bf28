import pytest

from wingbeat.errors import CorruptError, NotFoundError, UsageError
from wingbeat.measure import fingerprints, noted
from wingbeat.measure.record import Figure, Launch
from wingbeat.probe import document
from wingbeat.probe.document import Fingerprint
from wingbeat.probe.reading import Reading

CLOCK = {"min": 2290, "median": 2320, "max": 2340, "n": 8}


@pytest.fixture
def taken(tmp_path):
    """Writes a fingerprint of these values ("__" stands for ".")."""

    def taken(name, **values):
        readings = {key.replace("__", "."): Reading("value", value) for key, value in values.items()}
        path = tmp_path / f"{name}.json"
        document.save(Fingerprint("2026-01-01T00:00:00+00:00", 1.0, "process 4711", readings), path)
        return path

    return taken


def run(launches=1):
    record = noted.new("good")
    record.launches += [Launch(finished=True) for _ in range(launches - 1)]
    return record


def values(fields):
    return {name: entry["value"] for name, entry in fields.items()}


def test_one_is_of_the_start_and_a_second_of_the_end(taken):
    record = run(launches=2)
    fingerprints.attach(record, [taken("before", boot_id="a", uptime=10), taken("after", boot_id="a", uptime=90)])
    first, last = record.launches
    assert values(first.fingerprint) == {"boot_id": "a", "uptime": 10}
    assert values(last.fingerprint_after) == {"boot_id": "a", "uptime": 90}
    assert not first.fingerprint_after
    assert not last.fingerprint


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_readings_under_load_are_added_to_what_was_read_at_rest(taken, order):
    resting = taken("server", process__argv=["serve"], gpu__count=1)
    loaded = taken("loaded", process__argv=["sh"], load__gpu__0__clock__sm=CLOCK)
    record = run()
    fingerprints.attach(record, [(resting, loaded)[place] for place in order])
    expected = {"process.argv": ["serve"], "gpu.count": 1, "load.gpu.0.clock.sm": CLOCK}
    assert values(record.launches[0].fingerprint) == expected
    assert not record.launches[0].fingerprint_after


def test_two_under_load_are_of_start_and_end(taken):
    record = run()
    fingerprints.attach(record, [taken(name, load__samples=count) for name, count in (("before", 8), ("after", 9))])
    [launch] = record.launches
    assert (values(launch.fingerprint), values(launch.fingerprint_after)) == ({"load.samples": 8}, {"load.samples": 9})


def test_a_run_that_has_one_takes_readings_under_load_once(taken):
    record = run()
    plain, loaded = taken("plain", boot_id="a", os="x"), taken("loaded", boot_id="a", os="y", load__samples=8)
    fingerprints.attach(record, [plain])
    fingerprints.attach(record, [plain])  # the same again changes nothing
    record.launches[0].fingerprint_after = {"os": {"state": "value", "value": "z"}}
    fingerprints.attach(record, [loaded])
    assert values(record.launches[0].fingerprint) == {"boot_id": "a", "os": "x", "load.samples": 8}
    assert values(record.launches[0].fingerprint_after) == {"os": "z"}
    for more in ([loaded], [plain], [taken("other", os="y")], [loaded, loaded]):
        with pytest.raises(UsageError, match="good has a fingerprint: only readings under load"):
            fingerprints.attach(record, more)


def test_what_is_no_fingerprint_of_the_run_is_refused(taken, tmp_path):
    record = run()
    with pytest.raises(UsageError, match="two machines or boots"):
        fingerprints.attach(record, [taken("a", boot_id="a"), taken("b", boot_id="b")])
    with pytest.raises(UsageError, match="one fingerprint or two"):
        fingerprints.attach(record, [taken("c")] * 3)
    with pytest.raises(NotFoundError):
        fingerprints.attach(record, [tmp_path / "nowhere.json"])
    (tmp_path / "run.json").write_text('{"schema": 1}')
    with pytest.raises(CorruptError, match="not a fingerprint"):
        fingerprints.attach(record, [tmp_path / "run.json"])
    assert not record.launches[0].fingerprint
    record.launches.clear()
    with pytest.raises(UsageError, match="no launch yet"):
        fingerprints.attach(record, [taken("d")])


def test_figures_stay_as_they_are(taken):
    record = run()
    noted.add_arm(record, "plain", {"tokens_per_second": Figure(89.0)})
    fingerprints.attach(record, [taken("a", os="x")])
    assert record.launches[0].figures == {"plain": {"tokens_per_second": Figure(89.0)}}
