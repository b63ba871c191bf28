"""The calibration probe gives every figure it names; how large they are is the machine's affair."""

import math

import torch

from wingbeat.measure import calibrate


def test_every_figure_is_there_and_positive(monkeypatch):
    monkeypatch.setitem(calibrate.READ_BYTES, "cpu", 1 << 20)
    monkeypatch.setitem(calibrate.SIZE, "cpu", 32)
    found = calibrate.figures("cpu")
    assert found.keys() == calibrate.UNITS.keys()
    assert all(value > 0 and math.isfinite(value) for value in [*found.values(), calibrate.read_gb_s("cpu")])


def test_all_gpus_take_part_in_an_all_reduce_and_one_alone_has_none(monkeypatch):
    ones, reduced = torch.ones, []
    monkeypatch.setattr(torch, "ones", lambda size, device: ones(size))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda.nccl, "is_available", lambda parts: True)
    monkeypatch.setattr(torch.cuda.nccl, "all_reduce", lambda parts: reduced.append([len(part) for part in parts]))
    assert calibrate._all_reduces(1) == {}
    assert calibrate._all_reduces(3).keys() == {"all_reduce_4k", "all_reduce_256k"}
    assert [1024] * 3 in reduced
    assert [65536] * 3 in reduced
