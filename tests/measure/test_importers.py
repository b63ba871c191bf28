import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wingbeat.errors import CorruptError, NotFoundError, UsageError
from wingbeat.measure import importers, record
from wingbeat.measure.importers import evidence as ev
from wingbeat.measure.importers import sglang_log, vllm_log

FIXTURES = Path(__file__).parent / "fixtures"


def imported(*names, seconds=None, arm=""):
    """The record of fixture files, their format found out."""
    paths = [FIXTURES / name for name in names]
    source, reading = importers.read(paths, None, seconds)
    return importers.to_record(reading, source, paths, "name", arm)


def values(run, launch=0, arm="imported"):
    return {name: figure.value for name, figure in run.launches[launch].figures[arm].items()}


def counts(run):
    """Entries used and skipped."""
    return tuple(map(int, re.findall(r"(\d+) (?:entries|damaged)", run.requested["imported"])))


def what(run, name, launch=0, arm="imported"):
    return run.launches[launch].effective[arm]["definitions"][name]["what"]


def over(run, name, launch=0, arm="imported"):
    return run.launches[launch].effective[arm]["definitions"][name]["over"]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("sglang-2025.log", "sglang-log"),
        ("sglang-2026.log", "sglang-log"),
        ("sglang-bench.jsonl", "sglang-bench"),
        ("vllm.log", "vllm-log"),
        ("vllm-v0.log", "vllm-log"),
        ("vllm-serve.json", "vllm-bench"),
        ("vllm-latency.json", "vllm-bench"),
        ("vllm-throughput.json", "vllm-bench"),
        ("aiperf.json", "aiperf"),
        ("aiperf.csv", "aiperf"),
        ("aiperf-records.jsonl", "aiperf"),
        ("llama-server.log", "llama.cpp"),
        ("llama-server-2025.log", "llama.cpp"),
        ("llama-speculative.txt", "llama.cpp"),
        ("llama-bench.md", "llama.cpp"),
        ("llama-bench.json", "llama.cpp"),
        ("table.csv", "csv"),
    ],
)
def test_every_format_is_recognised_and_saved_and_read_again(name, source, tmp_path):
    run = imported(name)
    assert run.source == source
    record.save(run, tmp_path / "run.json")
    assert record.load(tmp_path / "run.json") == run
    for launch in run.launches:
        assert launch.fingerprint == {}
        assert launch.rounds == []
        for arm in launch.figures:
            named = {*launch.figures[arm], *launch.samples[arm]}
            assert all(ev.unit(one) for one in named), "every name has a unit"
            assert len({len(column) for column in launch.samples[arm].values()}) <= 1, "columns are equally long"
            assert launch.effective[arm]["definitions"].keys() == launch.figures[arm].keys()


def test_what_a_source_does_not_say_is_absent():
    for name in ("vllm-throughput.json", "table.csv", "llama-bench.json"):
        run = imported(name)
        for launch in run.launches:
            for figures in launch.figures.values():
                assert "tokens_per_cycle" not in figures
                assert "draft_ms" not in figures
    assert "tokens_per_second" not in values(imported("vllm-throughput.json")), "theirs counts prompt tokens"
    assert "tokens_per_cycle" not in values(imported("sglang-bench.jsonl"), arm="max_concurrency=8"), "null is unknown"


def test_sglang_log_of_2026():
    run = imported("sglang-2026.log")
    assert counts(run) == (4, 2), "one line cut short, one written into another"
    found = values(run)
    assert found["tokens_per_second"] == 208.0, "the line after a prefill, 1.59 tok/s, does not count"
    assert found["cycle_ms"] == pytest.approx(12.5)
    assert found["tokens_per_cycle"] == pytest.approx(2.55)
    assert found["captured"] == 0.75
    assert what(run, "acceptance") == ev.OF_DRAFTED
    samples = run.launches[0].samples["imported"]
    assert samples["tokens_per_second"] == [1.59, 200.0, 208.0, 216.0]
    assert samples["cycle_ms"] == [None, 12.5, 12.5, 12.5]
    assert samples["time_s"] == [0, 1, 2, 3]
    settings = run.launches[0].effective["imported"]
    assert (settings["speculative_num_draft_tokens"], settings["attention_backend"]) == (4, "fa3")
    assert run.launches[0].started == "2026-07-21 15:00:11"


def test_each_start_of_a_server_in_a_log_is_a_launch():
    run = imported("sglang-2025.log")
    speculative, plain = run.arms
    assert (speculative, plain) == ("speculative_algorithm=EAGLE3", "speculative_algorithm=None")
    assert [list(launch.figures) for launch in run.launches] == [[speculative], [plain]]
    assert what(run, "acceptance", 0, speculative) == ev.OF_VERIFIED
    assert values(run, 0, speculative)["cycle_ms"] == pytest.approx(10.0)
    assert "tokens_per_cycle" not in values(run, 1, plain)
    assert values(run, 1, plain)["cycle_ms"] == pytest.approx(12.5), "a token each for two requests"
    assert run.launches[1].samples[plain]["context"] == [74.0, 114.0], "of one request"


def decode_line(length, rate, rank="", graph="cuda graph: True"):
    stamp = f"[2026-01-01 10:00:00{rank}]"
    return f"{stamp} Decode batch, #running-req: 1, #token: 9, token usage: 0.00, accept len: {length:.2f}, " + (
        f"accept rate: {rate:.2f}, {graph}, gen throughput (token/s): 100.00, #queue-req: 0\n"
    )


@pytest.mark.parametrize(
    ("pairs", "meaning"),
    [
        ([(2.60, 0.65), (2.00, 0.50), (1.72, 0.43)], ev.OF_VERIFIED),  # of 4 verified
        ([(3.05, 0.68), (2.63, 0.54), (2.83, 0.61)], ev.OF_DRAFTED),  # of 3 drafted
        ([(1.00, 0.00)], sglang_log._EITHER),
    ],
)
def test_what_sglangs_accept_rate_counts_is_found_out(pairs, meaning):
    reading = sglang_log.read("".join(decode_line(length, rate) for length, rate in pairs))
    assert reading.launches[0][0].definitions["acceptance"]["what"] == meaning


def test_sglang_without_speculation_or_settings_is_not_taken_for_plain_decoding():
    line = "[gpu=0] Decode batch. #running-req: 1, #token: 9, token usage: 0.02, gen throughput (token/s): 30.38, #que"
    [[made]] = sglang_log.read(line).launches
    assert made.figures["tokens_per_second"].value == 30.38
    assert not {"tokens_per_cycle", "cycle_ms", "captured"} & made.figures.keys()
    assert "time_s" not in made.samples


def test_data_parallel_ranks_are_not_taken_for_the_whole():
    text = decode_line(2, 0.5, " DP0 TP0") + decode_line(2, 0.5, " DP1 TP0", "npu graph: False")
    [[made]] = sglang_log.read(text).launches
    assert made.samples["rank"] == [0.0, 1.0]
    assert made.samples["captured"] == [1.0, 0.0]
    assert "one of 2 data-parallel ranks" in made.definitions["tokens_per_second"]["what"]
    engine = (
        "Engine 00{}: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 9.0 tokens/s, Running: 1 reqs,\n"
    )
    [[made]] = vllm_log.read(engine.format(0) + engine.format(1)).launches
    assert "one of 2 data-parallel engines" in made.definitions["tokens_per_second"]["what"]


def test_sglang_bench():
    run = imported("sglang-bench.jsonl")
    assert counts(run) == (4, 1)
    assert run.arms == ["max_concurrency=1", "max_concurrency=8"]
    assert len(run.launches) == 1, "three benchmarks of one server are no three launches"
    figure = run.launches[0].figures["max_concurrency=1"]["tokens_per_second"]
    assert (figure.low, figure.value, figure.high, figure.count) == (79.0, 80.0, 82.0, 3)
    assert run.launches[0].samples["max_concurrency=1"]["tokens_per_second"] == [80.0, 84.0, 78.0]
    assert "since the server started" in over(run, "tokens_per_cycle", arm="max_concurrency=1")
    eight = run.launches[0].effective["max_concurrency=8"]
    assert (eight["request_rate"], eight["workload"]) == ("inf", {"name": "sharegpt", "concurrency": 8})
    assert run.workload["name"] == "sharegpt"
    assert "concurrency" not in run.workload


def test_vllm_log():
    run = imported("vllm.log")
    assert counts(run) == (5, 1)
    found = values(run)
    assert found["tokens_per_second"] == 125.0, "of the intervals between the same requests"
    assert found["cycle_ms"] == pytest.approx(20.0)
    assert found["tokens_per_cycle"] == pytest.approx(1 + 800 / 600)
    assert found["acceptance"] == pytest.approx(800 / 1800)
    assert found["acceptance_1"] == pytest.approx((200 * 0.6 + 400 * 0.8) / 600)
    assert run.launches[0].samples["imported"]["time_s"] == [0, 10, 30]
    assert run.launches[0].effective["imported"]["model"] == "Qwen/Qwen3-8B"


def test_vllm_log_of_the_old_engine_is_read_by_its_growth():
    run = imported("vllm-v0.log")
    assert values(run)["acceptance"] == pytest.approx(2400 / 3000)
    assert values(run)["tokens_per_cycle"] == pytest.approx(2.8)
    first = "\n".join((FIXTURES / "vllm-v0.log").read_text().splitlines()[:2])
    [[made]] = vllm_log.read(first).launches
    assert made.figures["tokens_per_cycle"].value == pytest.approx(2.0)
    assert "warm-up included" in made.definitions["tokens_per_cycle"]["over"]


def test_vllm_bench():
    run = imported("vllm-serve.json")
    found = values(run)
    assert (found["tokens_per_second"], found["tokens_per_cycle"], found["acceptance"]) == (100.0, 2.5, 0.5)
    assert [found[f"acceptance_{place}"] for place in (1, 2, 3)] == [0.8, 0.5, 0.2]
    assert found["cycle_ms"] == pytest.approx(20.0)
    samples = run.launches[0].samples["imported"]
    assert samples["ttft_ms"] == [pytest.approx(50.0), pytest.approx(70.0), None], "a failed request has no times"
    assert run.launches[0].started == "2026-05-07 04:56:17"
    assert what(run, "tokens_per_second") == what(
        imported("sglang-bench.jsonl"), "tokens_per_second", arm="max_concurrency=1"
    )
    assert what(run, "tokens_per_second") != what(imported("vllm.log"), "tokens_per_second")
    latency = imported("vllm-latency.json").launches[0].figures["imported"]["latency_ms"]
    assert (latency.value, latency.count) == (2000.0, 3)


def test_scrapes_of_vllm():
    run = imported("metrics-vllm-before.txt", "metrics-vllm-after.txt", seconds=25.0)
    found = values(run)
    assert counts(run)[1] == 1, "the last line is cut short"
    assert found["tokens_per_second"] == 100.0
    assert (found["tokens_per_cycle"], found["acceptance"], found["drafted_per_cycle"]) == (2.5, 0.5, 3.0)
    assert [found[f"acceptance_{place}"] for place in (1, 2, 3)] == [0.8, 0.5, 0.2]
    assert (found["ttft_ms"], found["finished"], found["prefix_hits"]) == (pytest.approx(50.0), 10.0, 0.25)
    unknown = values(imported("metrics-vllm-before.txt", "metrics-vllm-after.txt"))
    assert unknown == {name: value for name, value in found.items() if name not in ("tokens_per_second", "seconds")}


def test_scrapes_of_sglang():
    found = values(imported("metrics-sglang-before.txt", "metrics-sglang-after.txt"))
    assert found["tokens_per_cycle"] == 2.0, "the first token of each of the 10 requests came from prefill"
    assert (found["verify_ms"], found["draft_ms"], found["captured"]) == (
        pytest.approx(19.0), pytest.approx(2.5), pytest.approx(0.9),
    )  # fmt: skip
    assert "extend_ms" not in found


def test_scrapes_that_do_not_belong_together_are_refused():
    before, after = (FIXTURES / f"metrics-vllm-{when}.txt" for when in ("before", "after"))
    with pytest.raises(UsageError, match="earlier one first"):
        importers.read([after, before])
    with pytest.raises(UsageError, match="no counter grew"):
        importers.read([before, before])
    with pytest.raises(UsageError, match="in the second scrape"):
        importers.read([before, FIXTURES / "vllm.log"], "metrics")
    with pytest.raises(UsageError, match="two files"):
        importers.read([before])
    with pytest.raises(UsageError, match="--seconds"):
        importers.read([FIXTURES / "vllm.log"], None, 10.0)


def test_aiperf():
    summary, table = imported("aiperf.json"), imported("aiperf.csv")
    assert counts(table)[1] == 1, "a row cut short"
    for run in (summary, table):
        assert values(run)["tokens_per_cycle"] == 2.5, "weighted by steps, not the mean of requests"
        figure = run.launches[0].figures["imported"]["ttft_ms"]
        assert (figure.low, figure.value, figure.high) == (45.0, 50.0, 60.0)
    assert values(summary)["tokens_per_second"] == 90.0
    assert values(table)["tokens_per_second"] == 1150.92
    assert "latency_ms" not in values(table)
    assert summary.workload["concurrency"] == 4
    requests = imported("aiperf-records.jsonl")
    assert requests.launches[0].samples["imported"]["tpot_ms"] == [5.0, 6.0, 7.0]
    assert requests.requested["note"] == "2 requests failed or belong to the warm-up, and are left out"


def test_llama_server():
    run = imported("llama-server.log")
    assert counts(run) == (6, 1)
    found = values(run)
    assert found["tokens_per_second"] == pytest.approx(110.0)
    assert found["tokens_per_cycle"] == pytest.approx((2.5 * 240 + 3.0 * 120) / 360)
    assert found["acceptance"] == pytest.approx(200 / 360)
    assert run.launches[0].samples["imported"]["acceptance_1"] == [0.8, None]
    older = imported("llama-server-2025.log")
    assert values(older)["tokens_per_cycle"] == pytest.approx(200 / 125)
    assert "derived" in over(older, "tokens_per_cycle")
    assert "derived" not in over(run, "tokens_per_cycle")


def test_llama_speculative_is_read_by_its_summary():
    found = values(imported("llama-speculative.txt"))
    assert (found["tokens_per_second"], found["tokens_per_cycle"]) == (pytest.approx(25.8), pytest.approx(1.5))
    assert "prompt_tokens_per_second" not in found, "the timings below it are of parts of the work"


def test_llama_bench():
    run = imported("llama-bench.md")
    assert run.arms == ["test=pp512", "test=tg128", "test=tg128 @ d4096"]
    assert values(run, arm="test=pp512") == {"prompt_tokens_per_second": 1876.57}
    assert values(run, arm="test=tg128") == {"tokens_per_second": 46.83}
    run = imported("llama-bench.json")
    assert run.launches[0].samples["test=tg128"]["tokens_per_second"] == [8.3, 8.4, 8.5]
    assert run.requested["note"] == "1 tests mix prompt and output tokens, and are left out"


def test_table():
    run = imported("table.csv")
    assert counts(run) == (5, 1)
    assert run.arms == ["plain", "eagle3"]
    assert [sorted(launch.figures) for launch in run.launches] == [["eagle3", "plain"], ["eagle3"]]
    assert values(run, arm="plain") == {"context": 150.0, "tokens_per_second": 82.5}, "an empty cell is unknown"
    assert values(run, 1, "eagle3")["verify_ms"] == 29.0
    assert "operator" in run.requested["note"]


def test_a_file_is_a_launch_and_an_arm_can_be_named():
    run = imported("vllm-v0.log", "vllm-v0.log", arm="eagle3")
    assert run.arms == ["eagle3"]
    assert [list(launch.figures) for launch in run.launches] == [["eagle3"], ["eagle3"]]
    assert list(run.workload["files"]) == ["vllm-v0.log"]
    assert imported("sglang-bench.jsonl", arm="x").arms == ["x,max_concurrency=1", "x,max_concurrency=8"]
    different = imported("vllm.log", "vllm-v0.log")
    assert different.arms == ["model=Qwen/Qwen3-8B", "model=unknown"], "unknown is not taken for equal"


def test_what_cannot_be_imported_is_an_error_that_names_the_formats(tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("It was a bright cold day in April.\n")
    with pytest.raises(CorruptError, match=r"--format.*\n(.|\n)*sglang-log(.|\n)*metrics"):
        importers.read([other])
    with pytest.raises(CorruptError, match="nothing usable as vllm-log"):
        importers.read([other], "vllm-log")
    with pytest.raises(UsageError, match="no format 'vlm'"):
        importers.read([other], "vlm")
    with pytest.raises(UsageError, match="different formats"):
        importers.read([FIXTURES / "vllm.log", FIXTURES / "aiperf.csv"])
    with pytest.raises(NotFoundError, match="nowhere"):
        importers.read([tmp_path / "nowhere"])
    other.write_text(" \n")
    with pytest.raises(CorruptError, match="empty"):
        importers.read([other])


def test_lists_of_requests_that_do_not_fit_are_an_error(tmp_path):
    document = json.loads((FIXTURES / "vllm-serve.json").read_text())
    document["ttfts"].pop()
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(document))
    with pytest.raises(CorruptError, match="not equally long"):
        importers.read([edited])


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.iterdir() if "metrics" not in path.name))
def test_a_file_cut_anywhere_is_read_or_refused_and_never_read_wrongly(name, tmp_path):
    raw = (FIXTURES / name).read_bytes()
    whole = importers.read([FIXTURES / name])[1]
    wanted = [{str(value) for column in made.samples.values() for value in column} for made in whole.launches[0]]
    known = set().union(*wanted)
    cut = tmp_path / name
    for end in range(0, len(raw), 7):
        cut.write_bytes(raw[:end])
        try:
            _, part = importers.read([cut])
        except (CorruptError, UsageError):
            continue
        printed = {"tokens_per_second", "tokens_per_cycle", "running"}
        for made in part.launches[0] if name.endswith(".log") else []:
            rows = {str(value) for column in printed & made.samples.keys() for value in made.samples[column]}
            assert rows - known <= {"None"}, f"cut at {end}"


def test_windows_text_and_carriage_returns(tmp_path):
    text = (FIXTURES / "llama-server.log").read_text().replace("\n", "\r\n")
    wide = tmp_path / "wide.log"
    wide.write_bytes(text.encode("utf-16"))
    _, reading = importers.read([wide])
    assert reading.launches[0][0].figures == importers.read([FIXTURES / "llama-server.log"])[1].launches[0][0].figures


def test_importers_load_no_numpy():
    code = "import sys, wingbeat.measure.importers; assert not {'numpy', 'torch', 'scipy'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)
