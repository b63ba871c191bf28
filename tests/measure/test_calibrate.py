"""The calibration probe gives every figure it names; how large they are is the machine's affair."""

import math

from wingbeat.measure import calibrate


def test_every_figure_is_there_and_positive(monkeypatch):
    monkeypatch.setattr(calibrate, "READ_BYTES", 1 << 20)
    monkeypatch.setitem(calibrate.SIZE, "cpu", 32)
    found = calibrate.figures("cpu")
    assert found.keys() == calibrate.UNITS.keys()
    assert all(value > 0 and math.isfinite(value) for value in found.values())
