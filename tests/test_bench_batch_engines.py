"""The benchmark of batch engines, in small: every engine that is installed writes what NumPy computes."""

from importlib.util import find_spec

import numpy as np
import pytest

from benchmarks import batch_engines
from benchmarks.batch_engines import ENGINES, JOBS, prepare, seconds

RAY = "Ray Data"  # which needs a cluster


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_engines, "SHARD", 4)
        yield prepare(tmp_path_factory.mktemp("engines"), 6)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
@pytest.mark.parametrize("engine", [name for name in ENGINES if name != RAY])
def test_every_engine_writes_what_numpy_computes(files, engine, job):
    if not find_spec(ENGINES[engine][1]):
        pytest.skip(f"{engine} is not installed")
    assert seconds(engine, job, files) > 0


def test_another_result_is_refused(files):
    x = np.load(files.whole)
    np.save(files.out, JOBS[0].numpy(x) + 1)
    with pytest.raises(AssertionError):
        batch_engines.check(JOBS[0], files)
    files.out.unlink()
