"""Captured states are the target's own; shards resume, and damage is noticed."""

from __future__ import annotations

import dataclasses
import errno
import json

import pytest
import torch
from tiny import own_text, tiny_target

from wingbeat.errors import CorruptError, MismatchError, NotFoundError, StorageError, UsageError
from wingbeat.model.attention import causal_mask
from wingbeat.model.layers import ForwardInputs
from wingbeat.model.target import Target
from wingbeat.training import capture as room
from wingbeat.training.capture import MANIFEST, CaptureStore, Sample, capture, capture_samples, length_batches


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny_target()


@pytest.fixture(scope="module")
def samples(target):
    return own_text(target, 10)


def test_states_are_those_of_the_sample_alone(target):
    lengths = [4, 11, 7, 30]
    tokens = [torch.arange(size) % 60 for size in lengths]
    found = capture_samples(target, [Sample(ids, ids > 1) for ids in tokens], (0, 1, 2), batch_tokens=40)
    for ids, one in zip(tokens, found, strict=True):
        size = len(ids)
        shape = (1, target.config.num_kv_heads, size, target.config.head_dim)
        cache = [(torch.zeros(shape), torch.zeros(shape)) for _ in range(2)]
        start = torch.zeros(1, dtype=torch.int64)
        places = torch.arange(size)[None]
        inputs = ForwardInputs(ids[None], places, start, causal_mask(places, size))
        out = target(inputs, cache, (0, 1, 2))
        assert torch.equal(one.tokens, ids)
        torch.testing.assert_close(one.taps.float(), out.taps[0], rtol=1e-2, atol=1e-2)
        torch.testing.assert_close(one.hidden.float(), out.hidden[0], rtol=1e-2, atol=1e-2)


def test_batches_hold_similar_lengths_within_their_budget():
    lengths = [5, 100, 7, 6, 90, 8, 300]
    batches = length_batches(lengths, 200)
    assert sorted(index for batch in batches for index in batch) == list(range(7))
    for batch in batches:
        assert len(batch) == 1 or max(lengths[i] for i in batch) * len(batch) <= 200
    assert [0, 3, 2, 5] in batches


def test_a_stopped_capture_goes_on_and_reads_back(target, samples, tmp_path):
    whole = list(capture(target, samples, tmp_path / "whole", (0, 1, 2), shard_samples=4))

    class Killed(Exception):
        pass

    def stop(count, tokens):
        if count == 8:
            raise Killed

    with pytest.raises(Killed):
        capture(target, samples, tmp_path / "parts", (0, 1, 2), shard_samples=4, progress=stop)
    assert CaptureStore.open(tmp_path / "parts").num_samples == 8
    parts = list(capture(target, samples, tmp_path / "parts", (0, 1, 2), shard_samples=4))
    assert len(parts) == 10
    for one, other in zip(whole, parts, strict=True):
        for field in dataclasses.fields(one):
            first, second = getattr(one, field.name), getattr(other, field.name)
            assert torch.equal(first, second) if isinstance(first, torch.Tensor) else first == second


def test_a_damaged_shard_is_refused(target, samples, tmp_path):
    store = capture(target, samples, tmp_path, (0, 1, 2), shard_samples=4)
    path = tmp_path / "shard-00001.safetensors"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(bytes(data))
    assert len(store.read(0)) == 4
    with pytest.raises(CorruptError, match="shard-00001"):
        list(store)
    path.unlink()
    with pytest.raises(NotFoundError, match="shard-00001"):
        list(store)


def test_other_text_target_or_taps_need_another_directory(target, samples, tmp_path):
    capture(target, samples, tmp_path, (0, 1, 2), shard_samples=4)
    with pytest.raises(MismatchError, match="other text"):
        capture(target, samples[::-1], tmp_path, (0, 1, 2), shard_samples=4)
    with pytest.raises(MismatchError, match="taps"):
        capture(target, samples, tmp_path, (1, 2), shard_samples=4)
    with pytest.raises(MismatchError, match="target"):
        capture(Target.random(target.config, seed=9), samples, tmp_path, (0, 1, 2), shard_samples=4)


def test_what_cannot_be_captured_is_said(target, samples, tmp_path):
    with pytest.raises(UsageError, match="no text"):
        capture(target, [], tmp_path, (0, 1, 2))
    with pytest.raises(UsageError, match="tap"):
        capture(target, samples, tmp_path, ())
    with pytest.raises(UsageError, match="tap 3"):
        capture(target, samples, tmp_path, (0, 1, 3))
    with pytest.raises(NotFoundError, match="capture"):
        CaptureStore.open(tmp_path)
    (tmp_path / MANIFEST).write_text(json.dumps({"meta": {}})[:-3])
    with pytest.raises(CorruptError, match=MANIFEST):
        CaptureStore.open(tmp_path)


def test_a_full_disk_leaves_the_finished_shards(target, samples, tmp_path, monkeypatch):
    capture(target, samples[:4], tmp_path, (0, 1, 2), shard_samples=4)

    def full(tensors, path):
        path.write_bytes(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(room, "save_file", full)
    with pytest.raises(StorageError, match="No space left"):
        capture(target, samples, tmp_path, (0, 1, 2), shard_samples=4)
    assert sorted(path.name for path in tmp_path.iterdir()) == [MANIFEST, "shard-00000.safetensors"]
    monkeypatch.undo()
    assert capture(target, samples, tmp_path, (0, 1, 2), shard_samples=4).num_samples == 10
