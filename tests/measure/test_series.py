import numpy as np
import pytest
from scipy.signal import lfilter

from wingbeat.measure.series import block_sums, decorrelation, ratio_error, resampled, trend


def correlated(rng, count, rho=0.5, spread=0.08):
    return lfilter([1], [1, -rho], rng.normal(size=count) * spread * (1 - rho**2) ** 0.5)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_decorrelation_of_a_known_process(rho):
    values = correlated(np.random.default_rng(0), 20_000, rho)
    assert decorrelation(values) == pytest.approx((1 + rho) / (1 - rho), rel=0.2)


def test_blocks_add_up_to_the_whole():
    columns = np.random.default_rng(0).normal(size=(1003, 3))
    sums = block_sums(columns)
    assert 4 <= len(sums) < 1003
    assert sums.sum(axis=0) == pytest.approx(columns.sum(axis=0))


def test_resampled_totals_scatter_as_the_sum_does():
    clusters = np.random.default_rng(0).normal(size=(60, 1))
    totals = resampled(clusters)
    assert totals.mean() == pytest.approx(clusters.sum(), abs=0.6)
    assert totals.std() == pytest.approx(clusters.std() * 60**0.5, rel=0.08)


def test_the_error_of_a_mean_counts_correlation_in():
    rng = np.random.default_rng(1)
    runs = [20 * np.exp(correlated(rng, 1000, 0.7)) for _ in range(100)]
    true = np.std([np.log(run.mean()) for run in runs])
    found = np.mean([ratio_error(run, np.ones(len(run))) for run in runs[:20]])
    assert found == pytest.approx(true, rel=0.25)
    assert found > 1.8 * np.std(np.log(runs[0])) / 1000**0.5  # what independent cycles would give


def test_a_steady_series_is_called_so():
    rng = np.random.default_rng(2)
    kinds = [trend(20 * np.exp(correlated(rng, 300)), None, 0.03).kind for _ in range(200)]
    assert kinds.count("steady") >= 194
    assert trend(np.full(79, 20.0), None, 0.03) is None
    assert trend(np.full(400, 20.0), None, 0.03).kind == "steady"


@pytest.mark.parametrize(
    ("shape", "kind", "change", "at"),
    [
        (lambda x: 0.15 * x, "drift", 0.15, 0.0),
        (lambda x: 0.15 * (x > 0.6), "step", 0.15, 0.6),
        (lambda x: 0.15 * (x < 0.15), "warm-up", -0.15, 0.15),
        (lambda x: -0.15 * (x > 0.6), "step", -0.15, 0.6),
    ],
)
def test_what_moves_is_named(shape, kind, change, at):
    x = np.linspace(0, 1, 2000)
    contexts = 100 + 1000 * x
    found = trend(20 * np.exp(shape(x) + correlated(np.random.default_rng(3), 2000)), contexts, 0.03)
    assert found.kind == kind
    assert found.change == pytest.approx(change, abs=0.03)
    assert found.at == pytest.approx(at, abs=0.05)
    assert found.context == pytest.approx(np.sign(change), abs=0.6)
    assert trend(20 * np.exp(shape(x)), np.full(2000, 100.0), 0.03).context is None
