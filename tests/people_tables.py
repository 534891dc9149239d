"""Tables as people have them, made up, each with its true clusters and the kinds of its columns."""

import numpy as np

N = 300


def _blobs(rng, centers, spread, n=N):
    truth = rng.integers(len(centers), size=n)
    return truth, np.asarray(centers, float)[truth] + rng.normal(size=(n, len(centers[0]))) * spread


def customers(rng, n=N):
    """Identifiers, postcodes, dates, names, and money on a log scale."""
    truth, X = _blobs(rng, [(25, 3.0), (45, 5.5), (68, 4.0)], (3, 0.35), n)
    days = rng.integers(1, 29, n)
    table = {
        "customer_id": (10_000 + 7 * rng.permutation(n)).tolist(),
        "name": [f"Person {chr(65 + i % 26)}{i}" for i in range(n)],
        "postcode": rng.integers(10_000, 99_999, n).tolist(),
        "phone": [f"+49{rng.integers(10**9, 10**10)}" for _ in range(n)],
        "joined": [f"{d:02}.0{1 + d % 9}.2024" for d in days],
        "age": np.round(X[:, 0]).astype(int).tolist(),
        "spend": np.round(np.exp(X[:, 1]), 2).tolist(),
        "country": ["DE"] * n,
        "comment": [f"called us about order {i} and was happy" for i in range(n)],
    }
    kinds = {
        "customer_id": "identifier",
        "name": "identifier",
        "postcode": "code",
        "phone": "code",
        "joined": "date",
        "age": "number",
        "spend": "log",
        "country": "constant",
        "comment": "text",
    }
    return table, truth, kinds


def costs(rng, n=N):
    """Log-normal costs in three groups."""
    truth, X = _blobs(rng, [(3, 4, 3), (6, 4, 5), (6, 7.5, 8)], 0.5, n)
    names = ("material", "labour", "transport")
    table = {name: np.exp(X[:, j]) for j, name in enumerate(names)}
    return table, truth, dict.fromkeys(names, "log")


def sensors(rng, n=N):
    """A log with seconds and milliseconds since 1970."""
    truth, X = _blobs(rng, [(20, 40, 1013), (35, 60, 1002)], (1.5, 4, 2), n)
    start = 1_700_000_000
    table = {
        "timestamp": (start + 60 * np.arange(n)).tolist(),
        "received": (1000 * (start + 60 * np.arange(n)) + rng.integers(0, 900, n)).tolist(),
        "temperature": X[:, 0],
        "humidity": X[:, 1],
        "pressure": X[:, 2],
        "device_id": rng.integers(1, 4, n).tolist(),
    }
    kinds = {"timestamp": "date", "received": "date", "device_id": "identifier"}
    kinds |= dict.fromkeys(("temperature", "humidity", "pressure"), "number")
    return table, truth, kinds


def words(rng, n=N, d=30):
    """Counts of words in documents of very different lengths."""
    truth = rng.integers(3, size=n)
    topics = rng.dirichlet(np.full(d, 0.2), size=3) * 0.9 + 0.1 / d
    counts = np.array([rng.multinomial(rng.integers(30, 200), topics[t]) for t in truth])
    table = {f"word{j}": counts[:, j].tolist() for j in range(d)}
    return table, truth, dict.fromkeys(table, "count")


def survey(rng, n=N):
    """Answers from 1 to 5, 99 for no answer."""
    truth = rng.integers(2, size=n)
    middle = np.where(rng.random((2, 6)) < 0.5, 2.0, 4.0)
    middle[1] = 6 - middle[0]
    answers = np.clip(np.round(middle[truth] + rng.normal(size=(n, 6)) * 0.9), 1, 5).astype(int)
    answers[rng.random((n, 6)) < 0.06] = 99
    table = {f"q{j + 1}": answers[:, j].tolist() for j in range(6)}
    return table, truth, dict.fromkeys(table, "ordered")


def categories(rng, n=N):
    """Nothing but categories."""
    truth = rng.integers(3, size=n)
    table = {}
    for j, name in enumerate(("colour", "shape", "size", "brand")):
        values = np.array([f"{name[0]}{k}" for k in range(3)])
        mine = values[(truth + j) % 3]
        table[name] = np.where(rng.random(n) < 0.85, mine, rng.choice(values, n)).tolist()
    return table, truth, dict.fromkeys(table, "category")


def mixed(rng, n=N):
    """A number, a count, a category and yes or no, with a text column called label."""
    truth, X = _blobs(rng, [(1.70,), (1.95,)], 0.04, n)
    table = {
        "label": np.array(["a", "b"])[truth].tolist(),
        "height": X[:, 0],
        "visits": rng.poisson(np.array([2.0, 9.0])[truth]).tolist(),
        "plan": np.where(rng.random(n) < 0.9, np.array(["basic", "plus"])[truth], "trial").tolist(),
        "member": np.where(rng.random(n) < 0.9, truth == 1, truth == 0).tolist(),
        "newsletter": np.where(rng.random(n) < 0.5, "yes", "no").tolist(),
    }
    kinds = {
        "label": "class",
        "height": "number",
        "visits": "count",
        "plan": "category",
        "member": "yes/no",
        "newsletter": "yes/no",
    }
    return table, truth, kinds


def orders(rng, n=N):
    """Recency, frequency and money of customers: counts that vary more than Poisson's."""
    truth = rng.integers(3, size=n)
    days = np.array([5.0, 25.0, 80.0])[truth]
    table = {
        "CustomerID": rng.permutation(50_000)[:n].tolist(),
        "Recency": rng.poisson(rng.gamma(6, days / 6)).tolist(),
        "Frequency": (1 + rng.poisson(np.array([22, 8, 2])[truth])).tolist(),
        "Monetary": np.exp(rng.normal(np.array([8, 6.3, 4.2])[truth], 0.35)),
    }
    kinds = {"CustomerID": "identifier", "Frequency": "count", "Monetary": "log"}
    return table, truth, kinds


def sessions(rng, n=N):
    """Visits to a web site: counts, durations, yes or no, and a country that says nothing."""
    truth = rng.integers(3, size=n)
    table = {
        "pages": (1 + rng.poisson(np.array([2, 9, 25])[truth])).tolist(),
        "seconds": np.exp(rng.normal(np.array([3, 5.2, 6.8])[truth], 0.5)),
        "mobile": (rng.random(n) < np.array([0.9, 0.5, 0.2])[truth]).tolist(),
        "country": rng.choice(["US", "DE", "FR", "JP"], n).tolist(),
    }
    kinds = {"pages": "count", "seconds": "log", "mobile": "yes/no", "country": "category"}
    return table, truth, kinds


def gaps(rng, n=N):
    """12 % of the cells missing."""
    truth, X = _blobs(rng, [(0, 0, 0, 0), (6, 6, 0, 0), (0, 6, 6, 6)], 1.0, n)
    X[rng.random(X.shape) < 0.12] = np.nan
    table = {name: X[:, j] for j, name in enumerate(("width", "depth", "height", "weight"))}
    return table, truth, dict.fromkeys(table, "number")


def nines(rng, n=N):
    """Six cells of 9999."""
    truth, X = _blobs(rng, [(10, 50), (30, 20), (55, 70)], 3.0, n)
    at = rng.choice(n, 6, replace=False)
    X[at[:4], 0] = 9999
    X[at[4:], 1] = 9999
    return {"width": X[:, 0], "depth": X[:, 1]}, truth, {"width": "number", "depth": "number"}


def places(rng, n=N):
    """Coordinates of three towns."""
    truth, X = _blobs(rng, [(52.5, 13.4), (48.1, 11.6), (53.6, 10.0)], 0.15, n)
    kinds = dict.fromkeys(("latitude", "longitude"), "coordinate")
    return {"latitude": X[:, 0], "longitude": X[:, 1]}, truth, kinds


def penguins(rng, n=N):
    """Like palmerpenguins: measurements, an island, a sex, a year, and the species."""
    truth, X = _blobs(
        rng,
        [(38.8, 18.3, 190, 3700), (48.8, 18.4, 196, 3730), (47.5, 15.0, 217, 5080)],
        (2.2, 0.9, 6, 350),
        n,
    )
    X = np.round(X, 1)
    X[rng.random(n) < 0.01] = np.nan
    islands = np.array([["Torgersen", "Dream"], ["Dream", "Dream"], ["Biscoe", "Biscoe"]])
    sex = rng.choice(["male", "female"], n).astype(object)
    sex[rng.random(n) < 0.03] = None
    table = {
        "species": np.array(["Adelie", "Chinstrap", "Gentoo"])[truth].tolist(),
        "island": islands[truth, rng.integers(2, size=n)].tolist(),
        "bill_length_mm": X[:, 0],
        "bill_depth_mm": X[:, 1],
        "flipper_length_mm": X[:, 2],
        "body_mass_g": X[:, 3],
        "sex": sex.tolist(),
        "year": rng.integers(2007, 2010, n).tolist(),
    }
    kinds = dict.fromkeys(table, "number")
    kinds |= {"species": "class", "island": "category", "sex": "category", "year": "date"}
    return table, truth, kinds


ALL = (
    *(customers, costs, sensors, words, survey, categories, mixed, gaps, nines, places, penguins),
)
