"""The command line: one verb, one file, one frozen dataclass whose fields are its options.

A verb's docstring is its help text and its `run` method does the work by calling the library; nothing is computed
here that Python code could not call as well.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import tyro
from tyro.conf import OmitArgPrefixes, subcommand

from tutelage.cli.compare import Compare
from tutelage.cli.eval import Eval
from tutelage.cli.game import Game
from tutelage.cli.levels import Levels
from tutelage.cli.play import Play
from tutelage.cli.report import Report
from tutelage.cli.study import StudyVerb
from tutelage.cli.train import Resume, Train, parse
from tutelage.curriculum.curriculum import NotFiniteError
from tutelage.types import InputError

DESCRIPTION = "Train agents that generalise, by letting two teachers choose the levels they practise on."


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one verb. What cannot be done ends with one sentence on standard error and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        _parse(arguments).run()
    except (InputError, NotFiniteError, OSError) as error:
        print(f"tutelage: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("tutelage: interrupted.", file=sys.stderr)
        raise SystemExit(130) from None


def _parse(arguments: Sequence[str]) -> Any:
    """The verb, with all its options."""
    if arguments[:1] == ["train"]:
        return parse(arguments[1:])
    return tyro.cli(_VERBS, args=arguments, prog="tutelage", description=DESCRIPTION)


_VERBS: Any = (
    Annotated[Train[Any], subcommand("train")]
    | Annotated[Resume, subcommand("resume")]
    | Annotated[Eval, subcommand("eval")]
    | Annotated[Play, subcommand("play")]
    | Annotated[Compare, subcommand("compare")]
    | Annotated[Report, subcommand("report")]
    | Annotated[Levels, subcommand("levels"), OmitArgPrefixes]
    | Annotated[StudyVerb, subcommand("study"), OmitArgPrefixes]
    | Annotated[Game, subcommand("game"), OmitArgPrefixes]
)
