"""The `madbayes` command and its verbs. Each imports what it needs when it runs, so that `--help`
need not wait."""

from typing import Annotated

import typer

from madbayes import __version__
from madbayes.cli import graphs, later, tables
from madbayes.cli.options import verb

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"madbayes {__version__}")
        raise typer.Exit


@app.callback()
def madbayes(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Clusterings that find their own size.

    Start with: madbayes cluster FILE
    """


for function in (
    tables.cluster,
    tables.groups,
    graphs.graph,
    tables.features,
    tables.path,
    later.predict,
    later.compare,
    later.demo,
):
    verb(app)(function)
