"""Packages, checkouts, models and caches on disk."""

import base64
import hashlib
import json
import os
import subprocess

import pytest

from wingbeat.probe import caches, checkout, collect, model_files, software
from wingbeat.probe.host import Host
from wingbeat.probe.process import Target
from wingbeat.probe.reading import guarded

HERE = Target(os.getpid(), (), True)


def install(folder, name, version, files):
    """A package as an installer lays it, with its RECORD."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    rows = []
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(text)}")
    (info / "RECORD").write_text("\n".join([*rows, f"{info.name}/RECORD,,"]))


@pytest.fixture
def packages(tmp_path, monkeypatch):
    folder = tmp_path / "lib/python3.11/site-packages"
    install(folder, "vllm", "0.33.0", {"vllm/a.py": "x = 1\n", "vllm/b.py": "y = 1\n", "vllm/c.so": "binary"})
    install(folder, "some_thing", "2.0", {"thing.py": "z = 1\n"})
    monkeypatch.setattr(software.sys, "path", [str(folder)])
    return folder


def test_packages_by_their_folders(packages):
    found = software.packages(Host(), HERE)
    assert {name: reading.value for name, reading in found.items()} == {
        "installed.vllm": "0.33.0", "installed.some-thing": "2.0", "python.packages": 2,
    }  # fmt: skip


def test_a_package_run_from_a_checkout(packages, tmp_path):
    origin = {"url": f"file://{tmp_path}", "dir_info": {"editable": True}}
    (packages / "vllm-0.33.0.dist-info/direct_url.json").write_text(json.dumps(origin))
    first = software.packages(Host(), HERE)["editable.vllm"]
    assert (first.value[:20], first.raw) == ("no checkout, source ", "not run from a git checkout")
    (tmp_path / "kernel.py").write_text("x = 1\n")
    assert software.packages(Host(), HERE)["editable.vllm"].value != first.value


@pytest.mark.parametrize("text", ["", "[]", '{"url": 1, "dir_info": {"editable": true}}', '{"dir_info": 1}'])
def test_an_odd_origin_costs_no_package(packages, text):
    (packages / "vllm-0.33.0.dist-info/direct_url.json").write_text(text)
    assert software.packages(Host(), HERE)["python.packages"].value == 2


def test_what_was_changed_in_an_editable_package_is_kept(packages, repository):
    origin = {"url": f"file://{repository}/inner", "dir_info": {"editable": True}}
    (packages / "vllm-0.33.0.dist-info/direct_url.json").write_text(json.dumps(origin))
    (repository / "inner/code.py").write_text('x = self.key(1)\napi_key = "swordfish"\n')
    found = collect.group(Host(), "packages", HERE, collect.Request())["editable.vllm"]
    assert "+x = self.key(1)" in found.raw
    assert "swordfish" not in found.raw
    (repository / "inner/more.py").write_text("x = 1\n")
    assert software.packages(Host(), HERE)["editable.vllm"].value != found.value


def test_untouched_packages_are_untouched(packages):
    found = software.patched(Host(), HERE, 5.0)
    assert found.value == []
    assert found.raw == "4 files compared by size and time, 4 by content"


@pytest.mark.parametrize("name", ["vllm/c.so", "vllm/configs/E=8.json"])
def test_libraries_and_tuned_tables_are_looked_at_and_what_was_added_is_found(packages, name):
    path = packages / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("another")
    (packages / "thing.json").write_text("no engine's")
    digest = hashlib.sha256(b"another").hexdigest()[:16]
    word = "" if name == "vllm/c.so" else "added "
    assert software.patched(Host(), HERE, 0.0).value == [f"{name} {word}sha256:{digest}"]


@pytest.mark.parametrize("text", ["x = 1; import time\n", "x = 2\n"])
def test_a_patched_file_is_found_by_size_or_time(packages, text):
    target = packages / "vllm/a.py"
    target.write_text(text)
    later = (packages / "vllm-0.33.0.dist-info/RECORD").stat().st_mtime + 60
    os.utime(target, (later, later))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert software.patched(Host(), HERE, 0.0).value == [f"vllm/a.py sha256:{digest}"]


def test_a_patch_that_hides_size_and_time_is_found_by_content(packages):
    target = packages / "vllm/a.py"
    before = target.stat()
    target.write_text("x = 2\n")
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert software.patched(Host(), HERE, 0.0).value == []
    assert len(software.patched(Host(), HERE, 5.0).value) == 1


def test_files_that_run_at_every_start_are_seen(packages):
    (packages / "patch.pth").write_text("import patch")
    found = software.startup(Host(), HERE)
    assert found == [f"patch.pth sha256:{hashlib.sha256(b'import patch').hexdigest()[:16]}"]
    (packages / "hot_key.pth").write_text("import key")
    shown = collect.group(Host(), "patched", HERE, collect.Request())["packages.startup"].value
    assert f"hot_key.pth sha256:{hashlib.sha256(b'import key').hexdigest()[:16]}" in shown


def test_what_was_found_before_the_time_was_over_is_told(packages, monkeypatch):
    (packages / "vllm/a.py").write_text("x = 1; import time\n")
    ticks = iter([0.0, 1.0, 3.0, 3.0, 3.1])
    monkeypatch.setattr(software.time, "monotonic", lambda: next(ticks))
    found = software.patched(Host(), HERE, 0.0)
    assert found.state == "unknown"
    assert "after 3 files, before " in found.reason
    assert "changed among them: vllm/a.py sha256:" in found.reason


def test_files_that_stand_out_are_hashed_for_a_bounded_time(packages, monkeypatch):
    (packages / "vllm/a.py").write_text("x = 1; import time\n")
    monkeypatch.setattr(software, "SUSPECTS", -1.0)
    found = software.patched(Host(), HERE, 0.0)
    assert found.state == "unknown"
    assert "0 of 1 that stand out were hashed" in found.reason


def test_a_missing_file_is_a_change(packages):
    (packages / "thing.py").unlink()
    assert software.patched(Host(), HERE, 0.0).value == ["thing.py missing"]


def test_packages_of_another_process_are_found_by_its_libraries_and_interpreter(packages, tmp_path):
    place = tmp_path / "proc/5"
    place.mkdir(parents=True)
    (place / "maps").write_text("7f00-7f01 r-xp 0 0:0 1   /lib/python3.11/site-packages/vllm/c.so\n")
    host = Host(str(tmp_path))
    assert software.package_folders(host, Target(5)) == ["/lib/python3.11/site-packages"]
    (place / "maps").write_text("")
    (place / "cmdline").write_text("/bin/python\0-m\0vllm\0")
    assert software.package_folders(host, Target(5)) == ["/lib/python3.11/site-packages"]
    assert software.packages(host, Target(6))["python.packages"].state == "unknown"
    assert software.patched(host, Target(6), 1.0).state == "unknown"


@pytest.fixture
def repository(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    git("init")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/code.py").write_text("x = 1\n")
    git("add", ".")
    git("commit", "-m", "x")
    return tmp_path


def test_the_state_of_a_checkout(repository):
    host, inner = Host(), str(repository / "inner")
    clean = checkout.diff(host, inner)
    assert len(checkout.commit(host, inner)) == 40
    assert clean.value == checkout.CLEAN
    (repository / "inner/code.py").write_text('key = x(2)\nhf_token = "abcdefgh"\n')
    changed = checkout.diff(host, inner)
    assert changed.value.startswith("changes ")
    assert "+key = x(2)" in changed.raw
    assert "abcdefgh" not in changed.raw
    (repository / "new.py").write_text("")
    before = checkout.untracked(host, inner)
    assert [line.split(" ")[0] for line in before] == ["new.py"]
    (repository / "new.py").write_text("x = 1\n")
    assert checkout.untracked(host, inner) != before


def test_asking_for_the_state_of_a_checkout_writes_nothing(repository):
    os.utime(repository / "inner/code.py", (1, 1))
    index = repository / ".git/index"
    before = index.read_bytes()
    assert checkout.diff(Host(), str(repository)).value == checkout.CLEAN
    assert index.read_bytes() == before
    (repository / "inner/code.py").chmod(0o755)
    assert "new mode 100755" in checkout.diff(Host(), str(repository)).raw


def test_many_unknown_files_are_told_by_name(repository, monkeypatch):
    monkeypatch.setattr(checkout, "LISTED", 1)
    for name in ("a.py", "b.py"):
        (repository / name).write_text("")
    first, rest = checkout.untracked(Host(), str(repository))
    assert (first[:5], rest[:16]) == ("a.py ", "1 more, by name ")


def test_a_folder_outside_or_ignored_by_a_checkout_has_no_commit(repository, tmp_path_factory):
    host, inside = Host(), repository / "site-packages"
    inside.mkdir()
    assert "no part of it" in checkout.commit(host, str(inside)).reason
    assert checkout.diff(host, str(tmp_path_factory.mktemp("elsewhere"))).state == "not applicable"


@pytest.fixture
def model(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ x }}"}))
    (tmp_path / "model.safetensors").write_bytes(bytes(1 << 20))
    return tmp_path


def facts(place):
    host = Host()
    found = model_files.probes(host, "model", str(place), {})
    return {name: read() for name, read in found.items() if callable(read)}


def test_a_models_files_are_hashed(model):
    before = facts(model)
    assert before["model.generation_config"].state == "not applicable"
    assert before["model.weights"].raw.startswith("1 files, 1048576 bytes")
    (model / "generation_config.json").write_text('{"temperature": 0.6}')
    (model / "chat_template.jinja").write_text("{{ y }}")
    (model / "model.safetensors").write_bytes(bytes(1 << 19) + b"x" + bytes((1 << 19) - 1))
    after = facts(model)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"model.generation_config", "model.chat_template", "model.weights"}


def test_every_file_that_makes_tokens_or_runs_is_hashed_and_the_configuration_kept(model):
    (model / "config.json").write_text(json.dumps({"filler": "x" * 1000, "v_head_dim": 128}))
    before = facts(model)
    assert '"v_head_dim": 128' in before["model.config"].raw
    assert before["model.code"].state == "not applicable"
    (model / "tokenizer.model").write_bytes(b"\xff")
    second = facts(model)
    (model / "tokenizer.model").write_bytes(b"\xfe")
    third = facts(model)
    assert len({one["model.tokenizer"] for one in (before, second, third)}) == 3
    for name in ("merges.txt", "qwen.tiktoken", "modeling.py"):
        (model / name).write_text("")
    changed = {name for name, value in facts(model).items() if third[name] != value}
    assert changed == {"model.tokenizer", "model.code"}


def test_a_tokenizer_of_another_place(model, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "vocab.json").write_text("{}")
    request = collect.Request(models={"model": str(model), "tokenizer": str(other)})
    found = collect.group(Host(), "models", HERE, request)
    assert found["model.tokenizer"].value == facts(other)["model.tokenizer"]
    assert found["model.config"].value == facts(model)["model.config"].value
    assert not [name for name in found if name.startswith("tokenizer")]


def test_a_model_that_is_not_found_is_unknown(tmp_path):
    found = model_files.probes(Host(), "head", "a/b", {"HOME": str(tmp_path)})
    assert found.pop("head.name").value == "a/b"
    assert {reading.state for reading in found.values()} == {"unknown"}
    assert set(found) == {f"head.{name}" for name in model_files.FIELDS}


def test_a_single_file_is_a_model_too(model):
    assert model_files.weights(Host(), str(model / "model.safetensors")).state == "value"


def test_a_hub_id_is_found_among_the_downloads(tmp_path):
    folder = tmp_path / ".cache/huggingface/hub/models--a--b"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text("123")
    (folder / "snapshots/123").mkdir(parents=True)
    found = f"{folder}/snapshots/123"
    assert model_files.locate(Host(), "a/b", {"HOME": str(tmp_path)}) == found
    assert model_files.locate(Host(), "a/b", {"HF_HOME": f"{tmp_path}/.cache/huggingface"}) == found
    assert model_files.locate(Host(), "a/b", {"HF_HUB_CACHE": str(folder.parent)}) == found
    assert model_files.locate(Host(), "a/c", {"HOME": str(tmp_path)}) is None
    (folder / "refs/v2").write_text("456")
    (folder / "snapshots/456").mkdir()
    for revision in ("v2", "456"):
        assert model_files.locate(Host(), f"a/b@{revision}", {"HOME": str(tmp_path)}) == f"{folder}/snapshots/456"
    assert model_files.locate(Host(), "a/b@v3", {"HOME": str(tmp_path)}) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("vllm serve a/b --port 1", {"model": "a/b"}),
        ("python -m x --model-path=m --speculative-draft-model-path d", {"model": "m", "head": "d"}),
        ('python --model m --speculative-config {"method":"eagle3","model":"d"}', {"model": "m", "head": "d"}),
        ("python --speculative-config broken", {}),
        ("vllm serve --tp 2 m --port 1", {"model": "m"}),
        ("vllm serve --tp=2 --api-key k1 k2/x --eager a/b", {}),
        ("vllm serve --served-model-name x y --tp 2 a/b --revision r", {"model": "a/b@r"}),
        ("python --model m --tokenizer t --tokenizer-revision=r", {"model": "m", "tokenizer": "t@r"}),
        ('python --model m --speculative-config {"model":"d","revision":"r"}', {"model": "m", "head": "d@r"}),
        ("python --model", {}),
    ],
)
def test_models_that_a_servers_arguments_name(line, expected):
    assert model_files.named_in(line.split(" ")) == expected


def test_caches_by_names_sizes_and_tuned_choices(tmp_path):
    host, place = Host(), tmp_path / "cache"
    assert caches.listing(host, str(place)).state == "not applicable"
    (place / "a").mkdir(parents=True)
    (place / "a/kernel.cubin").write_bytes(b"123")
    (place / "a/autotune.json").write_text('{"tactic": 1}')
    first = caches.listing(host, str(place))
    assert (first["files"], first["bytes"]) == (2, 16)
    (place / "a/autotune.json").write_text('{"tactic": 2}')
    assert caches.listing(host, str(place))["hash"] != first["hash"]
    assert caches.places({"HOME": "/h", "TRITON_CACHE_DIR": "/t"})["triton"] == "/t"
    assert caches.places({"HOME": "/h", "XDG_CACHE_HOME": "/c"})["flashinfer"] == "/c/flashinfer"


def test_a_cache_that_cannot_be_listed_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(caches, "MOST", 1)
    for name in "abc":
        (tmp_path / name).write_text("")
    assert caches.listing(Host(), str(tmp_path)).state == "unknown"
    monkeypatch.setattr("os.scandir", refuse)
    assert guarded(lambda: caches.listing(Host(), str(tmp_path))).reason == f"{tmp_path}: Permission denied"


def refuse(path):
    raise PermissionError(13, "Permission denied", path)
