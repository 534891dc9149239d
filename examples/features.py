"""What the pictures of a tabletop are made of, found without saying how many objects there are.

With the environment variable MADBAYES_DATA naming a folder that holds `tabletop/tabletop_jpeg.zip`
(Griffiths & Ghahramani's 100 pictures, 240 x 320), those are used; otherwise generated pictures of
bars. Writes features.png and feature_path.png, into the folder given as the only argument or here.
"""

import io
import os
import sys
import zipfile
from pathlib import Path

import numpy as np

from madbayes.features import BPMeans
from madbayes.plots._features import features


def tabletop(folder):
    """Rows of RGB values between 0 and 1, scaled as in the paper, and the shape of a picture."""
    from matplotlib import image

    with zipfile.ZipFile(folder / "tabletop" / "tabletop_jpeg.zip") as archive:
        names = sorted(n for n in archive.namelist() if n.lower().endswith((".jpg", ".jpeg")))
        pictures = [image.imread(io.BytesIO(archive.read(n)), format="jpg") for n in names]
    shape = pictures[0].shape
    return np.array([p.ravel() for p in pictures], dtype=np.float32) / 255, shape


def bars(n=300, side=12, seed=0):
    """Each row a grey picture with some of eight bars, in noise."""
    rng = np.random.default_rng(seed)
    bar = np.zeros((8, side, side))
    for k in range(4):
        bar[k, 3 * k] = bar[k + 4, :, 3 * k] = 1
    Z = rng.random((n, 8)) < 0.3
    return Z @ bar.reshape(8, -1) + 0.3 * rng.standard_normal((n, side * side)), (side, side)


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder = os.environ.get("MADBAYES_DATA")
    X, shape = tabletop(Path(folder)) if folder else bars()
    model = BPMeans(random_state=0).fit(X)
    sys.stdout.write(f"{model.evidence_.describe()}\n")
    sys.stdout.write(f"penalty {model.penalty_:.4g}, objective {model.objective_:.2f}\n")
    figure = features(model, shape, X=X, title="What the pictures are made of")
    figure.savefig(out / "features.png", dpi=120)
    model.path_.plot().figure.savefig(out / "feature_path.png", dpi=120)


if __name__ == "__main__":
    main()
