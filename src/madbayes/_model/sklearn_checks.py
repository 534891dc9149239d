"""Which checks of scikit-learn's `check_estimator` an estimator does not promise, and why."""

from typing import Any


def expected_failed_checks(estimator: Any) -> dict[str, str]:
    """The checks of scikit-learn that are not promised for this estimator, with the reason of each.

    Parameters
    ----------
    estimator : an estimator of madbayes, with its parameters

    Returns
    -------
    dict of str
        For `sklearn.utils.estimator_checks.check_estimator` (scikit-learn 1.6 or later); the
        function itself is what `parametrize_with_checks` takes. Every other check passes.

    Examples
    --------
    >>> from madbayes import BPMeans, expected_failed_checks
    >>> for name in expected_failed_checks(BPMeans()):
    ...     print(name)
    check_sample_weight_equivalence_on_dense_data
    check_sample_weight_equivalence_on_sparse_data
    """
    name = type(estimator).__name__
    weights = clustering = ""  # why checks of weights, or of clusterings, fail
    if name in ("KFeatures", "StepwiseKFeatures", "BPMeans", "CollapsedBPMeans"):
        weights = (
            "with repeated rows the search draws other rows, and many allocations fit equally "
            "well: objectives agree, which of the allocations is found need not"
        )
    elif name in ("OnlineKMeans", "OnlineDPMeans"):
        weights = "rows come one after another: a row repeated later is not a row of weight 2"
    elif getattr(estimator, "algorithm", None) == "paper" and name != "KMeans":
        weights = (
            "a row of weight 2 opens a cluster when 2d² > λ, two rows of weight 1 only when "
            "d² > λ, and the printed algorithm depends on the order of the rows"
        )
    if name == "GraphCut":
        clustering = (
            "the check fits rows of points, whatever the pairwise tag says, and GraphCut needs "
            "the square adjacency of a graph"
        )
    elif getattr(estimator, "metric", None) == "precomputed":
        clustering = "the check fits rows of points where a matrix of dissimilarities is due"
    reasons = {
        "check_sample_weight_equivalence_on_dense_data": weights,
        "check_sample_weight_equivalence_on_sparse_data": weights,
        "check_clustering": clustering,
        "check_clustering(readonly_memmap=True)": clustering,
    }
    return {check: reason for check, reason in reasons.items() if reason}
