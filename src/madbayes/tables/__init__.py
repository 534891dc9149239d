"""Tables as people have them: files, data frames and dictionaries into numbers, with notes.

Needs pyarrow: every table becomes Arrow columns first, whatever it was before.
"""

try:
    import pyarrow as _pyarrow  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'madbayes.TableEncoder and madbayes.explore need pyarrow: pip install "madbayes[cli]".',
        name=error.name,
    ) from error
