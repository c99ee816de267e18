"""The command line: one verb, one file, one frozen dataclass whose fields are its options.

A verb's docstring is its help text. Its `run` method does the work by calling the library, so that everything can be
done from Python, too. Only the file of the requested verb is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module, metadata
from typing import Annotated, Any, Union

DESCRIPTION = "Train agents that generalize: a generator proposes levels, and a curator replays them."

VERBS = {
    "train": ("train", "Train", "Train an agent, and write everything to a run directory."),
    "resume": ("train", "Resume", "Continue a run that was stopped or killed, or make it longer."),
    "eval": ("eval", "Eval", "Evaluate trained agents on test levels."),
    "play": ("play", "Play", "Make a video of one episode."),
    "compare": ("compare", "Compare", "Compare methods by their runs: tables, tests and figures."),
    "paper": ("paper", "PaperVerb", "Make the paper's figures and tables from runs."),
    "report": ("report", "Report", "Make one HTML page of one run or several."),
    "study": ("study", "StudyVerb", "Run, watch and collect many runs from one file."),
    "levels": ("levels", "Levels", "List and draw the test levels of a domain."),
    "game": ("game", "Game", "Play the dual curriculum game on matrices (the paper's theory)."),
}
"""By name: the file, the class, and one line of help."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one verb. Input that cannot be used ends with one sentence on standard error and exit code 2."""
    first, *rest = [*(sys.argv[1:] if arguments is None else arguments)] or ["--help"]
    if first in ("-h", "--help"):
        return print(_help())
    if first == "--version":
        return print(f"tutelage {metadata.version('tutelage')}")
    if first not in VERBS and not first.startswith("--tyro-"):
        _end(2, _unknown(first))
    try:
        _parse([first, *rest]).run()
    except KeyboardInterrupt:
        _end(130, "interrupted.")
    except BrokenPipeError:  # of `tutelage ... | head`, which has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from None
    except Exception as error:
        if "RESOURCE_EXHAUSTED" in str(error) or isinstance(error, MemoryError):
            _end(2, "There is not enough memory for this. Fewer or smaller envs, levels or layers need less.")
        if isinstance(error, OSError) and error.filename is not None:
            _end(2, f"{error.filename} cannot be read or written: {error.strerror}.")
        from tutelage.curriculum.curriculum import NotFiniteError
        from tutelage.types import InputError

        if not isinstance(error, InputError | NotFiniteError | OSError):  # an error of this program
            raise
        _end(2, str(error))


def _end(code: int, sentence: str) -> None:
    print(f"tutelage: {sentence}", file=sys.stderr)
    if processes := sys.modules.get("tutelage.training.processes"):
        processes.exit_process(code)
    raise SystemExit(code)


def _help() -> str:
    width = max(map(len, VERBS)) + 2
    verbs = "\n".join(f"  {name:{width}}{line}" for name, (_, _, line) in VERBS.items())
    return (
        f"usage: tutelage [-h] [--version] VERB [OPTIONS]\n\n{DESCRIPTION}\n\nverbs:\n{verbs}\n\n"
        "Help on one of them: tutelage VERB --help\n"
        "Shell completion:    tutelage --tyro-write-completion bash FILE  (or zsh, tcsh)"
    )


def _unknown(word: str) -> str:
    close = get_close_matches(word, VERBS, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]}?" if close else ""
    what = "option" if word.startswith("-") else "verb"
    return f"There is no {what} {word!r}.{hint} The verbs are: {', '.join(VERBS)}."


def _parse(arguments: Sequence[str]) -> Any:
    name, *options = arguments
    if name.startswith("--tyro-"):
        return _every_verb(arguments)
    if name == "train":  # whose defaults depend on the preset, and that on the domain and the method
        return import_module("tutelage.cli.train").parse(options)
    return _tyro(_class(name), options, f"tutelage {name}")


def _every_verb(arguments: Sequence[str]) -> Any:
    """All verbs at once, which shell completion needs."""
    from tyro.conf import subcommand

    from tutelage.cli import train

    config = train.default_config(["plr-perp"])
    kinds: dict[str, Any] = {name: _class(name) for name in VERBS} | {"train": train.Train[type(config.setup)]}  # type: ignore[misc]
    defaults = {"train": {"default": kinds["train"](config.method.name, config)}}
    verbs: Any = Union[tuple(Annotated[kinds[name], subcommand(name, **defaults.get(name, {}))] for name in VERBS)]  # noqa: UP007
    with train.functions_by_name():
        return _tyro(verbs, arguments, "tutelage")


def _tyro(kind: Any, arguments: Sequence[str], program: str) -> Any:
    import tyro

    # the verbs `game` and `study` have verbs of their own, whose options need no prefix
    return tyro.cli(kind, args=arguments, prog=program, config=(tyro.conf.OmitArgPrefixes, tyro.conf.AvoidSubcommands))


def _class(name: str) -> Any:
    module, kind, _ = VERBS[name]
    return getattr(import_module(f"tutelage.cli.{module}"), kind)
