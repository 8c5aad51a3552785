"""Strict settings for every test: no implicit promotion, and both states of x64 where a test asks for them."""

import jax
import pytest
from hypothesis import settings

jax.config.update("jax_num_cpu_devices", 8)  # for the tests of meshes
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
settings.register_profile("dml_jax", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("dml_jax")


@pytest.fixture(params=[False, True], ids=["x64_off", "x64_on"])
def x64(request):
    """Runs the test with 64-bit types disabled, then enabled."""
    with jax.enable_x64(request.param):
        yield request.param


def pytest_addoption(parser):
    parser.addoption("--exhaustive", action="store_true", help="run every case of the sweeps, which takes much longer")


def pytest_configure(config):
    config.addinivalue_line("markers", "exhaustive: runs only with --exhaustive")


def pytest_collection_modifyitems(config, items):
    """Leaves out, without a mention, what only an exhaustive run has."""
    if config.getoption("--exhaustive"):
        return
    parts = {True: [], False: []}
    for item in items:
        parts[item.get_closest_marker("exhaustive") is not None].append(item)
    if parts[True]:
        config.hook.pytest_deselected(items=parts[True])
        items[:] = parts[False]


@pytest.fixture
def exhaustive(request):
    """Whether every case is to be run."""
    return request.config.getoption("--exhaustive")
