"""The `madbayes` command.

Importing this package needs nothing beyond madbayes itself, so that the command can say what to
install when the `cli` extra is missing. Everything else is imported by `main`.
"""

from collections.abc import Sequence

__all__ = ["main"]

NEEDED = ("typer", "rich", "pyarrow")
STOPPED = 130  # the exit code after Ctrl-C, as shells have it


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 done, 2 a user error, 130 interrupted."""
    import sys  # within: Ctrl-C while this module is imported would show a traceback

    try:
        code = _run(argv)
    except KeyboardInterrupt:
        code = STOPPED
    if code == STOPPED:
        sys.stderr.write("Interrupted; no partial files are left.\n")
    return code


def _run(argv: Sequence[str] | None) -> int:
    import signal
    import sys
    import threading
    from importlib.util import find_spec

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
    except ImportError as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from None
        raise
    return 0


def was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: imports of compiled modules turn it into ImportError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
