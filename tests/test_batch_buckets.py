"""Arrays of zarr in a bucket as outputs, on servers of this machine: whole at the end, resumed, never replaced."""

import json
import socket
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from batch_jobs import blocks, blocks_oracle, names, random_rows

from dml_jax.batch import BatchError, bucket_output, map_batches, zarr_output

tensorstore = pytest.importorskip("tensorstore", reason="tensorstore is not installed; the extra test has it")
pytestmark = pytest.mark.usefixtures("compiled_once", "settings")

ROWS = 37
ARRAY = random_rows(ROWS)


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Chunks of eight rows, and a directory for progress files."""
    monkeypatch.setattr(zarr_output, "CHUNK_BYTES", 8 * ARRAY[0].nbytes)
    monkeypatch.chdir(tmp_path)
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_EC2_METADATA_DISABLED": "true"}
    for name, value in keys.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def s3():
    moto = pytest.importorskip("moto.server", reason="needs moto, with the extras s3 and server")
    server = moto.ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def gs():
    """TensorStore reads its address once, so no other test of this process may have one of its own."""
    emulator = pytest.importorskip("gcp_storage_emulator.server", reason="needs gcp-storage-emulator")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    server = emulator.create_server(*address, in_memory=True)
    server.start()
    url = f"http://127.0.0.1:{address[1]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORSTORE_GCS_HTTP_URL", url)
        patch.setenv("GOOGLE_AUTH_TOKEN_FOR_TESTING", "x")
        yield url
    server.stop()


@pytest.fixture
def bucket(request, monkeypatch):
    """A new bucket, s3://NAME; or gs://NAME, of which the emulator lists all keys, whatever their prefix."""
    scheme = getattr(request, "param", "s3")
    server, name = request.getfixturevalue(scheme), f"bucket{abs(hash(request.node.name))}"
    if scheme == "s3":
        monkeypatch.setenv("AWS_ENDPOINT_URL", server)
        made = urllib.request.Request(f"{server}/{name}", method="PUT")
    else:
        content = json.dumps({"name": name}).encode()
        made = urllib.request.Request(f"{server}/storage/v1/b", content, {"Content-Type": "application/json"})
    urllib.request.urlopen(made).close()
    return f"{scheme}://{name}"


of_both = pytest.mark.parametrize("bucket", ["s3", "gs"], indirect=True)


def keys(url):
    found = tensorstore.KvStore.open(bucket_output.location(url)).result().list().result()
    return sorted(key.decode() for key in found)


def same(url, expected):
    map_batches(lambda x: x, url, "back.npy", overwrite=True)
    assert np.load("back.npy").tobytes() == expected.tobytes()


def interrupt(url, fn=blocks):
    def progress(now):
        if now.rows >= 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        map_batches(fn, ARRAY, url, batch_size=8, progress=progress)


@of_both
def test_a_job_that_was_stopped_goes_on(bucket, tmp_path):
    """The array has no metadata before all chunks are there; the progress file is in the current directory."""
    url = f"{bucket}/folder/out.zarr"
    interrupt(url)
    assert "zarr.json" not in keys(url)
    assert names(tmp_path) == ["out.zarr.progress"]
    done = map_batches(blocks, ARRAY, url, batch_size=11)
    assert 16 <= done.resumed < ROWS
    assert keys(url) == [*(f"c/{i}/0/0/0" for i in range(5)), "zarr.json"]
    assert names(tmp_path) == []
    same(url, blocks_oracle(ARRAY))


@of_both
def test_an_end_between_the_metadata_and_the_last_step_is_no_loss(bucket, tmp_path, monkeypatch):
    url = f"{bucket}/out.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(bucket_output.BucketOutput, "rename", lambda *_: sys.exit())
        with pytest.raises(SystemExit):
            map_batches(blocks, ARRAY, url, batch_size=8)
    assert map_batches(blocks, ARRAY, url, batch_size=8).resumed == ROWS
    assert names(tmp_path) == []
    assert bucket_output.TOKEN not in keys(url)
    same(url, blocks_oracle(ARRAY))


@of_both
def test_an_iterator_ends_where_it_ends(bucket):
    map_batches(blocks, (ARRAY[i : i + 5] for i in range(0, ROWS, 5)), f"{bucket}/out.zarr", batch_size=8)
    same(f"{bucket}/out.zarr", blocks_oracle(ARRAY))


def test_what_is_there_stays(bucket):
    """Buckets replace nothing at once: not even with overwrite=True."""
    url = f"{bucket}/out.zarr"
    map_batches(blocks, ARRAY, url)
    for overwrite in (False, True):
        with pytest.raises(BatchError, match=f"{url}: the output exists; delete it, or choose another name"):
            map_batches(blocks, ARRAY, url, overwrite=overwrite)
    with pytest.raises(BatchError, match="the output must not be an input"):
        map_batches(blocks, url, url)
    store = tensorstore.KvStore.open(bucket_output.location(f"{bucket}/other.zarr")).result()
    store.write("precious", b"x").result()
    with pytest.raises(BatchError, match=r"other.zarr: .*there is something else; choose another name"):
        map_batches(blocks, ARRAY, f"{bucket}/other.zarr")
    assert keys(f"{bucket}/other.zarr") == ["precious"]


@of_both
def test_another_job_starts_over_where_restart_says_so(bucket):
    url = f"{bucket}/out.zarr"
    interrupt(url)
    with pytest.raises(BatchError, match="belongs to another job"):
        map_batches(lambda x: 2 * x, ARRAY, url, batch_size=8)
    map_batches(lambda x: x, ARRAY[:9], url, batch_size=8, restart=True)
    assert keys(url) == ["c/0/0/0/0", "c/1/0/0/0", "zarr.json"]
    same(url, ARRAY[:9])


@of_both
def test_two_jobs_on_one_array_are_told(bucket, tmp_path, monkeypatch):
    """The second one, on another machine, begins anew; the first one notices when it records its rows."""
    url, begun = f"{bucket}/out.zarr", []

    def progress(_):
        if not begun:
            begun.append(1)
            (tmp_path / "elsewhere").mkdir()
            with monkeypatch.context() as patch:
                patch.chdir(tmp_path / "elsewhere")
                interrupt(url)

    with pytest.raises(BatchError, match="deleted or replaced while it was written; run the same again"):
        map_batches(blocks, ARRAY, url, batch_size=8, progress=progress)


def test_a_bucket_that_does_not_exist_is_told(bucket, tmp_path):
    with pytest.raises(BatchError, match=r"s3://nowhere/out.zarr: the output cannot be written: .*does not exist;"):
        map_batches(blocks, ARRAY, "s3://nowhere/out.zarr")
    assert names(tmp_path) == []


def test_a_bucket_without_rights_is_told(tmp_path, monkeypatch):
    class Refused(BaseHTTPRequestHandler):
        def answer(self):
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_PUT = do_HEAD = do_DELETE = answer  # noqa: N815

        def log_message(self, format, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refused)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    with pytest.raises(BatchError, match=r"s3://bucket/out.zarr: the output cannot be written: PERMISSION_DENIED"):
        map_batches(blocks, ARRAY, "s3://bucket/out.zarr")
    server.shutdown()
    server.server_close()
    assert names(tmp_path) == []
