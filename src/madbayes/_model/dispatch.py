"""What a fitted model does with Dask tables: their type decides where a method runs.

Whoever has no such tables never imports Dask.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from madbayes._rows.checks import is_spread

Method = TypeVar("Method", bound=Callable[..., Any])


def anywhere(method: Method) -> Method:
    """Make a method of (X, …) run where the rows of X are."""

    @wraps(method)
    def dispatched(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not is_spread(X):
            return method(self, X, *args, **options)
        from madbayes._model import dask_methods

        run = dask_methods.score if method.__name__ == "score" else dask_methods.map_rows
        return run(self, method.__name__, X, *args, **options)

    return dispatched  # type: ignore[return-value]
