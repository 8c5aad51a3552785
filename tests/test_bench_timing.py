"""How the benchmark times implementations beside each other, and tells whether their results are the same."""

from dataclasses import replace

import numpy as np
import pytest

from dml_jax.bench import implementations, operators, peers, timing


def test_a_case_is_measured_beside_a_copy():
    case = next(case for case in operators.small() if case.operator == "gather")
    measured = timing.measure(case, peers.implementations(eager=True), timing.Effort(rounds=3, seconds=1e-4))
    assert [m.contender for m in measured] == ["dml_jax", "jnp"]
    for one in measured:
        assert 0 < one.low <= one.seconds <= one.high
        assert one.of_copy > 0
        assert one.same_bits


class SpinningClock:
    """A clock of a process in which a thread spins until `end`, as ONNX Runtime's do for 0.1 s after a call."""

    def __init__(self):
        self.now = self.used = self.end = 0.0

    def perf_counter(self):
        return self.now

    def process_time(self):
        return self.used

    def sleep(self, seconds):
        self.used += max(0.0, min(seconds, self.end - self.now))
        self.now += seconds


def test_nobody_is_timed_while_threads_of_another_spin(monkeypatch):
    clock, spins = SpinningClock(), []
    monkeypatch.setattr(timing, "time", clock)

    def spin(_):
        clock.now += 1e-3
        clock.end = clock.now + 0.1

    def work(_):
        spins.append(clock.now < clock.end)
        clock.now += 1e-3

    runs = {"spins": implementations.HostRun(spin, None, [()]), "works": implementations.HostRun(work, None, [()])}
    timing._rounds(runs, timing.Effort(rounds=9, seconds=1e-3))
    assert len(spins) == 12
    assert not any(spins[3:])  # three calls find out how many a sample needs


def test_one_slow_call_does_not_count_for_the_others(monkeypatch):
    """Whoever takes 0.2 s is called three times; whoever did so once is measured like the others."""
    clock, called = SpinningClock(), {"slow": 0, "stumbles": 0}
    monkeypatch.setattr(timing, "time", clock)

    def take(name, seconds):
        def write(_):
            called[name] += 1
            clock.now += seconds if called[name] > 1 else 0.2

        return implementations.HostRun(write, None, [()])

    runs = {"slow": take("slow", 0.2), "stumbles": take("stumbles", 1e-3)}
    samples = timing._rounds(runs, timing.Effort(rounds=9, seconds=1e-3))
    assert samples["slow"] == pytest.approx([0.2] * 3)
    assert samples["stumbles"] == pytest.approx([1e-3] * 9)


def test_samples_keep_the_order_of_the_contenders(monkeypatch):
    """Whoever is slow does not come first: callers tell implementations by their places."""
    clock = SpinningClock()
    monkeypatch.setattr(timing, "time", clock)

    def take(seconds):
        def write(_):
            clock.now += seconds

        return implementations.HostRun(write, None, [()])

    runs = {"fast": take(1e-3), "slow": take(0.2), "faster": take(1e-4)}
    assert list(timing._rounds(runs, timing.Effort(rounds=3, seconds=1e-3))) == ["fast", "slow", "faster"]


def test_nobody_waits_for_ever_for_threads_that_spin(monkeypatch):
    clock = SpinningClock()
    clock.end = float("inf")
    monkeypatch.setattr(timing, "time", clock)
    timing._rest()
    assert clock.now == pytest.approx(timing.SPINNING, abs=2 * timing.REST)


def test_what_is_computed_has_a_product_of_matrices_as_its_ceiling():
    case = replace(next(operators.small()), operations=2 * 20**3)
    run = implementations.ceiling_of(case, turns=2)
    run.step(0)
    run.finish()
    np.testing.assert_array_equal(run.value(10**6), np.full(20 * 20, 20, np.float32))


def test_numbers_that_are_rounded_are_compared_by_the_tolerance_of_their_case():
    values = {"first": np.float32([1, -100]), "near": np.float32([1.05, -100]), "far": np.float32([1.2, -100])}
    runs = {name: implementations.HostRun(lambda out: None, value, [()]) for name, value in values.items()}
    assert timing._compare(runs, 1e-3) == {"first": True, "near": True, "far": False}
    assert timing._compare(runs, 0.0) == {"first": True, "near": False, "far": False}


def test_indices_are_compared_as_numbers_and_beside_values_too():
    """torch and ONNX count in 64 bits."""
    values = [np.float32([1, 2]), np.uint32([3, 4])]
    narrow, wide = (implementations.joined([values[0], values[1].astype(d)]) for d in (np.uint32, np.int64))
    assert narrow.dtype == wide.dtype == np.float64
    assert narrow.tolist() == [1, 2, 3, 4]
    assert timing._same({"a": narrow, "b": wide, "c": narrow[::-1]}, 0.0) == {"a": True, "b": True, "c": False}
    assert implementations.joined([values[1]]).dtype == np.uint32
    found = {"a": values[1], "b": np.int64([3, 4]), "c": np.int64([3, 5]), "d": np.int32([3, 4])}
    assert timing._same(found, 0.0) == {"a": True, "b": True, "c": False, "d": True}


def test_tolerances_are_of_float64():
    """Where differences of bytes would wrap, and those of halves be rounded."""
    assert timing._same({"a": np.uint8([9, 250]), "b": np.uint8([10, 249])}, 0.01) == {"a": True, "b": True}
    assert timing._same({"a": np.float16([60000]), "b": np.float16([-60000])}, 0.5) == {"a": True, "b": False}


def test_samples_of_large_results_visit_every_phase():
    taken = implementations.thin(np.arange(2**20), 1000)
    assert len(taken) >= 900
    assert {int(x) % 8 for x in taken} == set(range(8))
    assert {int(x) % 9 for x in implementations.thin(np.arange(9 * 2**16), 1000)} == set(range(9))
    assert len(implementations.thin(np.arange(100), 1000)) == 100
