"""What clusters cost: the second half of every objective here, *squared error + price*."""

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True)
class Price:
    """λ for each cluster, of which there may be `cap` (KJ Eq. 1; BKJ Eq. 12).

    A penalty of 0 with a cap is k-means: as many clusters as the cap allows always pay.
    """

    penalty: float
    cap: int

    def part(self, cap: int) -> Self:
        """The same for some of the rows, which may have `cap` clusters."""
        return replace(self, cap=cap)


def per_cluster(penalty: float, max_clusters: int | None, n: int) -> Price:
    """λk, with at most `max_clusters` clusters of n rows."""
    return Price(penalty, min(max_clusters or n, n))


def fixed(n_clusters: int, n: int) -> Price:
    """Nothing, for exactly so many clusters: k-means."""
    return Price(0.0, min(n_clusters, n))


@dataclass(frozen=True)
class SharedPrice(Price):
    """λ_g (`penalty`) for each cluster, λ_l (`local`) for each group that uses it (KJ Eq. 2)."""

    local: float = 0.0
