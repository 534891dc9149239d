"""The price of clusters: the second term of the objective *squared error + price*."""

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True)
class Price:
    """`penalty` (λ) for each cluster, and at most `cap` clusters (KJ Eq. 1; BKJ Eq. 12).

    A penalty of 0 with a cap is k-means: one more cluster never costs more than it saves, so there
    are always as many clusters as the cap allows.
    """

    penalty: float
    cap: int

    def part(self, cap: int) -> Self:
        """This price for a part of the rows, with at most `cap` clusters."""
        return replace(self, cap=cap)


def per_cluster(penalty: float, max_clusters: int | None, n: int) -> Price:
    """The price λk for n rows, with at most `max_clusters` clusters."""
    return Price(penalty, min(max_clusters or n, n))


def fixed(n_clusters: int, n: int) -> Price:
    """The price of k-means: no penalty, and exactly `n_clusters` clusters for n rows."""
    return Price(0.0, min(n_clusters, n))


@dataclass(frozen=True)
class SharedPrice(Price):
    """`penalty` (λ_g) for each cluster, and `local` (λ_l) for each group that uses the cluster
    (KJ Eq. 2)."""

    local: float = 0.0
