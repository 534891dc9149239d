"""Checkpoints: fits that were interrupted for real go on to the same bits; others are refused."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from madbayes import DPMeans, KMeans
from madbayes._model import checkpoint as module
from madbayes._model.checkpoint import Checkpoint


def blobs(n, d, k, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    centers = rng.normal(scale=3, size=(k, d))
    return (centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))).astype(dtype)


@pytest.fixture
def every_pass(monkeypatch):
    """Write after every pass, however short."""
    monkeypatch.setattr(module, "SECONDS", 0.0)
    monkeypatch.setattr(module, "SHARE", 0.0)


def interrupt_at(monkeypatch, write):
    """Ctrl-C right after the file was written for the n-th time."""
    real, count = Checkpoint.write, [0]

    def writing(self, state):
        real(self, state)
        count[0] += 1
        if count[0] == write:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "write", writing)
    return count


def same(found, expected):
    for name in ("labels_", "cluster_centers_", "objective_history_", "inertia_", "n_iter_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


MODELS = [
    KMeans(40, random_state=0, tol=0, max_iter=40),
    KMeans(7, init="random", n_init=4, random_state=5, max_iter=30),
    KMeans(6, metric="cosine", random_state=1),
    DPMeans(40.0, algorithm="paper", max_iter=12),
    DPMeans(30.0, algorithm="paper", order="random", random_state=2, max_clusters=60),
    DPMeans("farthest-first", n_clusters_hint=12, algorithm="paper"),
    DPMeans(algorithm="paper", random_state=0),
]


@pytest.mark.filterwarnings("ignore:.*converge")
@pytest.mark.parametrize("d", [3, 12])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: repr(model)[:60])
def test_an_interrupted_fit_goes_on_to_the_same_bits(model, d, every_pass, monkeypatch, tmp_path):
    X = blobs(5000, d, 10, seed=0, dtype=np.float32)
    expected = model.__class__(**model.get_params()).fit(X)
    path = tmp_path / "fit.npz"
    kept = model.__class__(**{**model.get_params(), "checkpoint": path})
    with monkeypatch.context() as patch:
        count = interrupt_at(patch, -1)
        kept.fit(X)
    same(kept, expected)
    assert count[0] >= 2, "passes enough to be interrupted"
    assert not path.exists(), "it goes when the fit is done"
    for write in sorted({1, 2, count[0] // 2, count[0]} - {0}):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            interrupt_at(patch, write)
            kept.fit(X)
        assert path.exists()
        with monkeypatch.context() as patch:
            left = interrupt_at(patch, -1)
            same(kept.set_params(n_jobs=1).fit(X), expected)
        assert left[0] <= count[0] - write, "it goes on, not again"


def test_weights_and_no_seed(every_pass, monkeypatch, tmp_path):
    X, weight = blobs(3000, 8, 6, seed=1), np.random.default_rng(0).integers(0, 3, 3000)
    model = DPMeans(60.0, algorithm="paper", order="random", checkpoint=tmp_path / "a.npz")
    np.random.seed(7)  # noqa: NPY002  random_state=None draws from this
    expected = model.fit(X, sample_weight=weight)
    labels = expected.labels_.copy()
    np.random.seed(7)  # noqa: NPY002
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupt_at(patch, 2)
        model.fit(X, sample_weight=weight)
    np.random.seed(8)  # noqa: NPY002  the file knows better
    np.testing.assert_array_equal(model.fit(X, sample_weight=weight).labels_, labels)


SCRIPT = """
import sys, time
import numpy as np
from madbayes import KMeans, DPMeans
from madbayes._model import checkpoint
checkpoint.SECONDS = checkpoint.SHARE = 0.0
real = checkpoint.write
def slowly(path, header, arrays):
    real(path, header, arrays)
    print("written", flush=True)
    time.sleep(0.05)
checkpoint.write = slowly
X = np.load(sys.argv[1])
model = eval(sys.argv[3])
model.checkpoint = sys.argv[2]
model.fit(X)
np.savez(sys.argv[4], labels=model.labels_, inertia=model.inertia_, centers=model.cluster_centers_)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills processes")
@pytest.mark.parametrize(
    "model", ["KMeans(60, random_state=0, tol=0)", "DPMeans(30.0, algorithm='paper')"]
)
def test_a_killed_process_goes_on(model, tmp_path):
    X = blobs(4000, 8, 10, seed=2)
    np.save(tmp_path / "rows.npy", X)
    expected = eval(model).fit(X)
    out = tmp_path / "out.npz"
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "rows.npy"), str(tmp_path / "c.npz")]
    command += [model, str(out)]
    rng = np.random.default_rng()
    for writes in (1, 2):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for _ in range(writes):
            assert process.stdout.readline() == "written\n"
        time.sleep(rng.uniform(0, 0.08))  # in the middle of a pass or of writing
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert (tmp_path / "c.npz").exists()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found = np.load(out)
    np.testing.assert_array_equal(found["labels"], expected.labels_)
    np.testing.assert_array_equal(found["centers"], expected.cluster_centers_)
    assert found["inertia"] == expected.inertia_
    assert [p.name for p in tmp_path.iterdir() if "c.npz" in p.name] == []


def test_another_fit_is_refused(every_pass, monkeypatch, tmp_path):
    X = blobs(2000, 4, 5, seed=0)
    path = tmp_path / "fit.npz"
    model = KMeans(20, random_state=0, tol=0, checkpoint=path)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupt_at(patch, 2)
        model.fit(X)
    refused = "was written by another fit: "
    with pytest.raises(ValueError, match=refused + "n_clusters was 20 there and is 21 here"):
        KMeans(21, random_state=0, tol=0, checkpoint=path).fit(X)
    with pytest.raises(ValueError, match=refused + r"X\.shape was \[2000, 4\] there"):
        KMeans(20, random_state=0, tol=0, checkpoint=path).fit(X[1:])
    with pytest.raises(ValueError, match=refused + r"X\.dtype"):
        KMeans(20, random_state=0, tol=0, checkpoint=path).fit(X.astype(np.float32))
    with pytest.raises(ValueError, match=refused + "rows of X"):
        KMeans(20, random_state=0, tol=0, checkpoint=path).fit(X + 1e-3)
    with pytest.raises(ValueError, match=refused + "estimator"):
        DPMeans(9.0, algorithm="paper", checkpoint=path).fit(X)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"is cut short or damaged\. Delete it"):
        model.fit(X)
    path.write_bytes(whole[:2000] + bytes([whole[2000] ^ 1]) + whole[2001:])
    with pytest.raises(ValueError, match="checksum does not match"):
        model.fit(X)
    DPMeans(9.0).fit(X).save(path)
    with pytest.raises(ValueError, match="is not a madbayes checkpoint"):
        model.fit(X)
    path.write_bytes(b"\x80\x04 pickled")
    with pytest.raises(ValueError, match="is a pickle"):
        model.fit(X)


def test_bad_paths_and_a_full_disk(every_pass, monkeypatch, tmp_path):
    X = blobs(500, 4, 5, seed=0)
    with pytest.raises(FileNotFoundError, match="folder that does not exist"):
        KMeans(2, checkpoint=tmp_path / "no" / "a.npz").fit(X)
    with pytest.raises(IsADirectoryError, match="name a file"):
        KMeans(2, checkpoint=tmp_path).fit(X)
    with pytest.raises(TypeError, match="checkpoint=3 must be the path"):
        KMeans(2, checkpoint=3).fit(X)
    for model in (KMeans(2, algorithm="search"), DPMeans()):
        with pytest.raises(ValueError, match="is for algorithm='paper'"):
            model.set_params(checkpoint=tmp_path / "a.npz").fit(X)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write", full)
    with pytest.raises(OSError, match=r"could not be written \(No space left"):
        KMeans(5, tol=0, random_state=0, checkpoint=tmp_path / "a.npz").fit(X)


def test_short_fits_write_nothing(monkeypatch, tmp_path):
    count = interrupt_at(monkeypatch, -1)
    KMeans(5, checkpoint=tmp_path / "a.npz").fit(blobs(500, 4, 5, seed=0))
    assert count[0] == 0
