"""The command line: one verb, one file, one frozen dataclass whose fields are its options.

A verb's docstring is its help text and its `run` method does the work by calling the library; nothing is computed
here that Python code could not call as well.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import tyro
from tyro.conf import OmitArgPrefixes, subcommand

from tutelage.cli.bench import Bench
from tutelage.cli.game import Game
from tutelage.cli.levels import Levels
from tutelage.types import InputError

Verb = (
    Annotated[Levels, subcommand("levels")]
    | Annotated[Bench, subcommand("bench")]
    | Annotated[Game, subcommand("game")]
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one verb. Bad input ends with one sentence on standard error and exit code 2."""
    verb: Verb = tyro.cli(Verb, config=(OmitArgPrefixes,), args=arguments, prog="tutelage", description=__doc__)
    try:
        verb.run()
    except InputError as error:
        print(f"tutelage: {error}", file=sys.stderr)
        raise SystemExit(2) from None
