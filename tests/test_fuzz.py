"""A few small random cases of each estimator; `make fuzz` runs many."""

import fuzz
import pytest

CASES = 3


@pytest.mark.parametrize("name", sorted(fuzz.ESTIMATORS))
def test_random_cases_keep_the_contract(name):
    for number in range(CASES):
        words, found = fuzz.run_case(0, number, [name], small=True)
        again = f"python tests/fuzz.py --seed 0 --case {number} --only {name} --small"
        assert not isinstance(found, fuzz.Broken), f"{found}\n{words}\n{again}"


def test_a_broken_promise_is_found(monkeypatch):
    """The checks can fail: a clustering whose last label is one too high."""
    kind = fuzz.ESTIMATORS["KMeans"]
    fit = kind.fit

    def spoilt(self, X, **options):
        fit(self, X, **options)
        self.labels_ = self.labels_ + 1
        return self

    monkeypatch.setattr(kind, "fit", spoilt)
    found = [fuzz.run_case(0, number, ["KMeans"], small=True)[1] for number in range(5)]
    assert any(isinstance(one, fuzz.Broken) and one.promise == "labels_ in range" for one in found)
