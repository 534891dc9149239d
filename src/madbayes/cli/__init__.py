"""The `madbayes` command.

Importing this package needs nothing beyond madbayes itself, so that the command can say what to
install when the `cli` extra is missing. Everything else is imported by `main`.
"""

import signal
import sys
import threading
from collections.abc import Sequence
from importlib.util import find_spec

__all__ = ["main"]

NEEDED = ("typer", "rich", "pyarrow")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 done, 2 a user error, 130 interrupted."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"The madbayes command needs {', '.join(missing)}, which the library alone does not. "
            'Install the rest with:\n\n    pip install "madbayes[cli]"\n'
        )
        return 2
    if argv is None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left then
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without × shows ?, rather than failing
            stream.reconfigure(errors="replace")
    try:
        from madbayes.cli.app import app
        from madbayes.cli.options import COMMAND, spelled_out

        COMMAND[0] = list(sys.argv[1:] if argv is None else argv)
        app(args=spelled_out(COMMAND[0]), prog_name="madbayes")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted; no partial files are left.\n")
        return 130
    return 0
