import contextlib

import pytest

from wingbeat.measure.clock import FakeClock, TimingObserver
from wingbeat.measure.subjects import FakeCycle


@pytest.fixture
def clock():
    return FakeClock()


def facts(accepted=0, committed=1):
    return FakeCycle((10,), (4,), (accepted,), (committed,), 5)


def spend(clock, observer, phase, ms):
    with observer.phase(phase):
        clock.advance(ms / 1000)


def test_a_cycle_is_its_phases_and_what_lies_between_them(clock):
    observer = TimingObserver(clock)
    spend(clock, observer, "prefill", 50)
    spend(clock, observer, "draft", 2)
    clock.advance(0.001)
    spend(clock, observer, "verify", 7)
    observer.cycle(facts(accepted=3, committed=4))
    columns = observer.columns
    assert observer.prefill_ms == pytest.approx(50)
    assert {name: column[0] for name, column in columns.ms.items()} == pytest.approx(
        {"draft": 2, "verify": 7, "host": 1, "cycle": 10}, abs=1e-4
    )
    assert list(columns.time) == pytest.approx([0.060])
    assert (columns.contexts, columns.drafted, columns.accepted) == ([[10]], [[4]], [[3]])
    assert (columns.committed, list(columns.width), columns.path) == ([[4]], [5], ["script"])


def test_phases_of_one_name_add_up_and_the_next_cycle_begins_anew(clock):
    observer = TimingObserver(clock)
    for _ in range(2):
        spend(clock, observer, "commit", 3)
    observer.cycle(facts())
    spend(clock, observer, "commit", 4)
    observer.cycle(facts())
    assert observer.columns.ms["commit"] == pytest.approx([6, 4])
    assert observer.columns.ms["cycle"] == pytest.approx([6, 4])


def test_a_phase_inside_another_stops_the_outer_one(clock):
    observer = TimingObserver(clock)
    with observer.phase("draft"):
        clock.advance(0.002)
        spend(clock, observer, "extend", 5)
        clock.advance(0.001)
    clock.advance(0.004)
    observer.cycle(facts())
    assert {name: column[0] for name, column in observer.columns.ms.items()} == pytest.approx(
        {"draft": 3, "extend": 5, "host": 4, "cycle": 12}, abs=1e-4
    )


def test_times_count_from_the_origin(clock):
    clock.advance(7)
    observer = TimingObserver(clock, origin=5.0)
    spend(clock, observer, "verify", 1000)
    observer.cycle(facts())
    assert list(observer.columns.time) == pytest.approx([3.0])


def test_a_phase_that_comes_late_or_not_at_all_took_no_time(clock):
    observer = TimingObserver(clock)
    spend(clock, observer, "verify", 5)
    observer.cycle(facts())
    spend(clock, observer, "draft", 1)
    observer.cycle(facts())
    assert observer.columns.ms["draft"] == pytest.approx([0, 1])
    assert observer.columns.ms["verify"] == pytest.approx([5, 0])


def test_prefill_between_cycles_belongs_to_neither(clock):
    observer = TimingObserver(clock)
    observer.cycle(facts())
    spend(clock, observer, "prefill", 30)
    spend(clock, observer, "verify", 5)
    observer.cycle(facts())
    assert observer.columns.ms["cycle"] == pytest.approx([0, 5])
    assert observer.prefill_ms == pytest.approx(30)


def test_the_device_is_waited_for_before_the_clock_is_read(clock):
    observer = TimingObserver(clock, synchronize=lambda: clock.advance(0.004))
    with observer.phase("verify"):
        pass
    observer.cycle(facts())
    assert observer.columns.ms["verify"] == pytest.approx([4])


def test_a_phase_is_closed_when_it_fails(clock):
    observer = TimingObserver(clock)
    with contextlib.suppress(ZeroDivisionError), observer.phase("draft"):
        clock.advance(0.002)
        raise ZeroDivisionError
    observer.cycle(facts())
    assert observer.columns.ms["draft"] == pytest.approx([2])
