"""What can go wrong because of the file or the options, said in one paragraph."""

import re
from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """Shown without a traceback; the command ends with exit code 2."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """' Did you mean b?' when something is near, else nothing."""
    near = get_close_matches(word, list(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""


def one_line(error: Exception) -> str:
    """The message of an error as one sentence."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if text.endswith(".") else text + "."


def harmless(text: str) -> str:
    """Text that a terminal only shows: control characters (colours, clearing the screen) as such.

    >>> harmless("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", _escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
