"""Tables that are not in this process: their type decides where a method runs.

`distributed` is above this layer and is looked up by name, when such a table is seen for the first
time. Whoever has no such tables never imports Dask.
"""

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

from madbayes._rows.checks import is_spread

Method = TypeVar("Method", bound=Callable[..., Any])
ROOM = "madbayes.distributed"


def anywhere(method: Method) -> Method:
    """Make a method of (X, …) run where the rows of X are."""

    @wraps(method)
    def dispatched(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not is_spread(X):
            return method(self, X, *args, **options)
        return import_module(ROOM).run(self, method, X, *args, **options)

    return dispatched  # type: ignore[return-value]
