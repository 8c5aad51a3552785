"""Pytest configuration: strict JAX settings, the fixture `x64`, and samples of sweeps (--exhaustive, --every)."""

import contextlib
import gc
import signal
from collections import Counter

import jax
import pytest
from hypothesis import settings
from jax.experimental.compilation_cache import compilation_cache

from dml_jax.batch import mapped_write

jax.config.update("jax_num_cpu_devices", 8)  # for the tests of meshes
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_traceback_filtering", "off")  # it takes longer than the checks whose errors it shortens
mapped_write.LEAST = 10**6  # one thread writes batches, however many cores there are
settings.register_profile("dml_jax", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("dml_jax")


@pytest.fixture(params=[False, True], ids=["x64_off", "x64_on"])
def x64(request):
    """Runs the test with 64-bit types disabled, then enabled."""
    with jax.enable_x64(request.param):
        yield request.param


@pytest.fixture(autouse=True)
def handlers():
    """Puts the handlers of signals back, which commands replace: Ctrl-C is for the test run."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    signal.set_wakeup_fd(-1)  # of the thread of a command that ran in this process, which is there still
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def full_precision():
    """Of products of float32: a GPU rounds their operands where JAX is not told otherwise."""
    with jax.default_matmul_precision("highest"):
        yield


@pytest.fixture
def compilations(caplog):
    """Counts what is compiled inside a `with` block."""

    @contextlib.contextmanager
    def counted():
        caplog.clear()
        messages = []
        with jax.log_compiles(), caplog.at_level("WARNING"):
            yield messages
        messages += [m for m in (r.getMessage() for r in caplog.records) if "Compiling" in m]

    return counted


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    """For tests that run one job again and again, which compiles each time: jax finds the program in a folder."""

    def use(options):
        for name, value in options.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()

    folder = str(tmp_path_factory.mktemp("compiled"))
    options = {"jax_compilation_cache_dir": folder, "jax_persistent_cache_min_compile_time_secs": 0}
    before = {name: getattr(jax.config, name) for name in options}
    use(options)
    yield
    use(before)


def pytest_addoption(parser):
    parser.addoption("--exhaustive", action="store_true", help="run every case of every sweep, and ONNX's node tests")
    parser.addoption("--every", type=int, default=1, help="of what --exhaustive adds to a sweep: one case of so many")
    parser.addoption("--no-skips", action="store_true", help="a test or a file that is skipped fails")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is collected stays, what is traced is seldom garbage at once: looking for it took a tenth of the time."""
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()
    return True


def is_chosen(number, every, start=0):
    """One of each row of so many, in another place from row to row."""
    return not (number + number // every + start) % every


@pytest.hookimpl(tryfirst=True)  # before -m chooses by the marks that are put here
def pytest_collection_modifyitems(config, items):
    """Leaves out what is marked `exhaustive`, unless it is asked for, and most cases of what is `thinned`."""
    seen, added = Counter(), Counter()
    every = config.getoption("--exhaustive") and config.getoption("--every")

    def runs(item):
        if thinned := item.get_closest_marker("thinned"):
            # Other ones from test to test, whose names differ in length.
            if not is_chosen(seen[item.function], *(thinned.args or (3,)), len(item.nodeid.partition("[")[0])):
                item.add_marker(pytest.mark.exhaustive)
            seen[item.function] += 1
        if not item.get_closest_marker("exhaustive"):
            return True
        added[item.function] += 1
        return every and is_chosen(added[item.function] - 1, every)

    kept = [item for item in items if runs(item)]
    config.hook.pytest_deselected(items=[*{*items}.difference(kept)])
    items[:] = kept


def failed_if_skipped(report, config):
    """A report whose skip is a failure with --no-skips: where every library was installed, none is missing."""
    if report.skipped and config.getoption("--no-skips") and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"skipped in spite of --no-skips: {report.longrepr[2]}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    return failed_if_skipped((yield), item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return failed_if_skipped((yield), collector.config)


@pytest.fixture(scope="session")
def exhaustive(request):
    """Whether every case is asked for."""
    return request.config.getoption("--exhaustive")
