"""What is uploaded, tried as a stranger would: `make release-check`.

    python tests/release.py [folder]

Builds the sdist and the wheel (into `folder`, or a temporary one), looks into both, installs the
wheel into a new environment far from the checkout, and there runs the examples of the README, the
demo of the command, and a fit, a save and a load of every estimator.
"""

import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from email import message_from_string
from pathlib import Path
from shutil import copy, copytree

ROOT = Path(__file__).resolve().parents[1]

EXAMPLES = """
import doctest, sys
flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
failed, tried = doctest.testfile("README.md", module_relative=False, optionflags=flags)
sys.exit(failed or not tried)
"""

SMOKE = """
import importlib.metadata, pathlib, sys
import numpy as np
import madbayes

assert importlib.metadata.version("madbayes") == madbayes.__version__
assert pathlib.Path(madbayes.__file__).is_relative_to(sys.prefix), madbayes.__file__
rng = np.random.default_rng(0)
X = 8 * rng.integers(2, size=(60, 3)) + rng.normal(size=(60, 3))
for name in madbayes.__all__:
    thing = getattr(madbayes, name)
    if not (isinstance(thing, type) and hasattr(thing, "fit")):
        continue
    rows = (np.linalg.norm(X[:, None] - X, axis=2) < 4) - np.eye(60) if name == "GraphCut" else X
    model = thing()
    model = model.set_params(n_iter=20, burn_in=10) if name.endswith("Gibbs") else model
    model.fit(rows)
    if hasattr(model, "save"):
        model.save("model.npz")
        again = madbayes.load("model.npz")
        if hasattr(model, "labels_"):
            np.testing.assert_array_equal(again.labels_, model.labels_)
"""


def run(*command: object, **more: object) -> None:
    print("$", " ".join(Path(str(part)).name for part in command if "\n" not in str(part)))
    subprocess.run([str(part) for part in command], check=True, **more)


def look_into(wheel: Path, sdist: Path) -> None:
    """No tests and no stray files in the wheel; the licence is in both."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        about = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = message_from_string(archive.read(about).decode())
    info = about.removesuffix("METADATA")
    kinds = (".py", ".typed", ".csv", ".css", ".js", ".html")
    ours = [name for name in names if not name.startswith(info)]
    a_test = re.compile(r"/(tests?/|test_|conftest)")  # graph/valley_test.py tests data, not code
    stray = [
        name
        for name in ours
        if not name.startswith("madbayes/") or a_test.search(name) or not name.endswith(kinds)
    ]
    assert not stray, f"does not belong into the wheel: {stray}"
    assert f"{info}licenses/LICENSE" in names
    assert {"madbayes/py.typed", "madbayes/cli/old_faithful.csv"} <= set(names)
    assert metadata["License-Expression"] == "BSD-3-Clause"
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "tests/test_contract.py"} <= inside
    hidden = {name for name in inside if name.startswith(".")}
    assert hidden <= {".gitignore", ".pre-commit-config.yaml"}, hidden
    print(f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 1024:.0f} KiB")
    print(f"{sdist.name}: {len(inside)} files, {sdist.stat().st_size / 1024:.0f} KiB")


def main(folder: Path) -> None:
    dist, away = folder / "dist", folder / "away"
    run(sys.executable, "-m", "build", "--outdir", dist, ROOT, stdout=subprocess.DEVNULL)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    look_into(wheel, sdist)

    away.mkdir()
    venv.create(away / "venv", with_pip=True)
    scripts = away / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    python = scripts / "python"
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[cli,plot]")
    run(python, "-m", "pip", "check")
    copy(ROOT / "README.md", away)
    copytree(ROOT / "examples", away / "examples")
    run(python, "-c", EXAMPLES, cwd=away)
    run(scripts / "madbayes", "demo", cwd=away)
    run(python, "-c", SMOKE, cwd=away)
    print("fit to be released")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if sys.argv[1:] else temporary).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        main(folder)
