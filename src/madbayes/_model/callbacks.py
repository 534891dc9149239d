"""scikit-learn's callbacks hear the stages of a fit. They came with scikit-learn 1.9; before, an
estimator has no `set_callbacks`, and nothing else changes.

The fit is the root task, each stage ("searching") is a task below it, and what a stage counts are
the tasks of the stage. So `sklearn.callback.ProgressBar` shows one bar for each stage.
"""

import functools
import threading
from collections.abc import Callable
from types import MethodType
from typing import Any

from madbayes._rows.progress import listening

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Any) -> Any:
        return method


class CallbacksMixin(CallbackSupportMixin):
    """Every `fit` that a subclass defines tells the callbacks of the model how far it is."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "fit" in vars(cls):
            cls.fit = _Fit(vars(cls)["fit"])


class _Fit:
    """The method `fit`: the plain one, unless the model has callbacks.

    A descriptor and not a wrapper, so that a warning of a fit names the line of the user.
    """

    def __init__(self, plain: Callable[..., Any]) -> None:
        self.plain, self.__doc__ = plain, plain.__doc__

    def __get__(self, model: Any, owner: Any = None) -> Any:
        if model is None:
            return self.plain
        under_way = hasattr(model, "_callback_fit_ctx")  # `fit` calls that of a base class
        plain = MethodType(self.plain, model)
        if under_way or not getattr(model, "_skl_callbacks", None):
            return plain
        told = functools.partial(_fit_with_callbacks, model, self.plain)
        return functools.update_wrapper(told, plain)  # with its parameters: `sample_weight`


@with_callbacks
def _fit_with_callbacks(
    model: Any, fit: Callable[..., Any], X: Any, *args: Any, **kwargs: Any
) -> Any:
    task = model._init_callback_context(max_subtasks=None)
    told = {"estimator": model, "X": X, "metadata": kwargs}
    task.call_on_fit_task_begin(**told)
    stages = _Stages(model, task)
    with listening(stages):
        fit(model, X, *args, **kwargs)
    stages.end()
    task.call_on_fit_task_end(**told, reconstruction_attributes=dict)  # as it is now
    return model


class _Stages:
    """A listener (`_rows.progress`) that turns stages into tasks of callbacks."""

    def __init__(self, model: Any, root: Any) -> None:
        self.model, self.root, self.lock = model, root, threading.Lock()
        self.task: Any = None
        self.done = 0

    def __call__(self, name: str, done: int, total: int | None) -> None:
        with self.lock:
            if done == 0:  # a stage begins
                self.end()
                self.task, self.done = self.root.subcontext(name, max_subtasks=total), 0
                self.task.call_on_fit_task_begin(estimator=self.model)
            elif self.task is None or name != self.task.task_name:
                return  # a stage that another one has replaced
            if self.task.max_subtasks is not None:
                done = min(done, self.task.max_subtasks)  # totals are guesses
            while self.done < done:
                self.done += 1
                step = self.task.subcontext(name).call_on_fit_task_begin(estimator=self.model)
                step.call_on_fit_task_end(estimator=self.model)

    def end(self) -> None:
        """The stage that is under way ends."""
        if self.task is not None:
            self.task.call_on_fit_task_end(estimator=self.model)
            self.task = None
