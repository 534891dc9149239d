"""What can go wrong because of the file or the options, said in one paragraph."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Shown without a traceback; the command ends with exit code 2."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """' Did you mean b?' when something is near, else nothing."""
    near = get_close_matches(word, list(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""
