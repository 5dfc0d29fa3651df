"""The command line: verbs only. Nothing heavy is imported before a verb needs it."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from itertools import pairwise

from dgpbench import __version__
from dgpbench.cli.registry import VERBS, commands
from dgpbench.config import plugins
from dgpbench.config.suggest import ALIASES, nearest
from dgpbench.errors import DISK_FAULTS, Interrupted, UserError, disk_fault
from dgpbench.plain_text import visible

SYNONYMS = {  # of commands
    **dict.fromkeys(("train", "fit", "start", "execute"), "run"),
    **dict.fromkeys(("list", "ls", "results", "runs"), "show"),
    **dict.fromkeys(("evaluate", "eval", "score", "metrics", "test"), "rescore"),
    **dict.fromkeys(("benchmark", "grid", "batch", "multirun"), "sweep"),
    **dict.fromkeys(("optimize", "optimise", "search", "hpo"), "tune"),
    **dict.fromkeys(("datasets", "dataset", "download", "fetch"), "data"),
    **dict.fromkeys(("draw", "chart", "visualize", "visualise"), "plot"),
    **dict.fromkeys(("validate", "lint"), "check"),
    **dict.fromkeys(("clean", "purge"), "gc"),
    **dict.fromkeys(("info", "diagnose", "env"), "doctor"),
    **dict.fromkeys(("models", "model", "inference", "settings"), "run --help"),
}
COMPLETE = "_complete"
WORDS = ("overrides", "filters", "names")  # the verbs' positional arguments, of any number
PLACE_ERRORS = (errno.ENOENT, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP)
FILE_ERRORS = (*DISK_FAULTS, errno.EACCES, errno.EPERM, errno.ENOTDIR)


class Parser(argparse.ArgumentParser):
    """Errors are UserErrors, so that every bad input ends in the same one line."""

    def __init__(self, *args, **rest):
        super().__init__(*args, **rest)
        if self.description:  # wrapped also where an epilog is printed as it stands
            self.description = textwrap.fill(self.description, 78)

    def error(self, message: str):
        raise UserError(f"{message}; see `{self.prog} --help`")


def entry() -> None:
    """Run the command of this process and end with its exit code; `run` in a process of its own."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before any verb, or a user's model, loads TensorFlow
    _open_closed_streams()
    if sys.argv[1:2] == ["run"] and not {"-h", "--help", "--cfg"} & set(sys.argv):
        from dgpbench.cli.run import supervised

        sys.exit(supervised(sys.argv[2:], main))
    sys.exit(main())


def _open_closed_streams() -> None:
    """Point closed standard streams (`>&-`) to /dev/null: files opened later must not get their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)  # takes the lowest free number
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 failed, 2 bad input, 130 or 143 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # what the terminal has no letter for is written out
            stream.reconfigure(errors="backslashreplace")
    return guarded(lambda: _dispatch(list(sys.argv[1:] if argv is None else argv)))


def guarded(command: Callable[[], int]) -> int:
    """Run a command; an error that the user can mend becomes one line and an exit code."""
    try:
        return command()
    except UserError as error:
        return _fail(" ".join(str(error).split()), 2)
    except Interrupted as error:
        return _fail(str(error), 128 + error.signal_number)
    except KeyboardInterrupt:
        return _fail("interrupted; the same command starts or resumes the run", 130)
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno in PLACE_ERRORS and error.filename:
            return _fail(f"{error.strerror}: {error.filename}; name another file or folder", 2)
        if error.errno not in FILE_ERRORS:
            raise
        return _fail(disk_fault(error), 2)


def _fail(message: str, code: int) -> int:
    shown = visible(message)  # it may quote what others wrote
    print(f"dgpbench: error: {shown}" if code < 128 else f"dgpbench: {shown}", file=sys.stderr)
    return code


def _dispatch(argv: list[str]) -> int:
    verb = argv[0] if argv else "--help"
    if verb == COMPLETE:
        from dgpbench.cli.completion import complete

        return complete(argv[1:])
    if verb == "help" and argv[1:]:  # help run: run --help
        return _dispatch([*argv[1:2], "--help"])
    if verb in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if verb in ("-V", "--version"):
        print(f"dgpbench {__version__}")
        return 0
    if verb not in VERBS and verb not in commands():
        hint = _meant(argv)
        raise UserError(
            f"unknown command '{verb}'{hint}{'' if hint[-1:] == '?' else ';'} `dgpbench --help` lists all"
        )
    return run_verb(verb, argv)


def _meant(argv: list[str]) -> str:
    """Return the suggestion for an unknown command."""
    word = argv[0].lower()
    if "=" in word:
        return f"; did you mean 'run {' '.join(argv)}'?"
    if word in commands():
        return f"; did you mean '{word}'?"
    if word in SYNONYMS:
        return f"; did you mean '{SYNONYMS[word]}{' ' + word if word in ('models', 'settings') else ''}'?"
    if guess := nearest(word, commands()):
        return f"; did you mean '{guess}'?"
    from dgpbench.config.tree import setting_of

    meant = setting_of(word)
    return f"; did you mean 'run {meant}'?" if meant else ""


def run_verb(verb: str, argv: list[str]) -> int:
    """Parse the words of a verb, itself the first of them, and run it."""
    for before, word in pairwise(argv):
        if not word or re.fullmatch("--[a-z-]+=", word):
            name = word.rstrip("=") or (before if before.startswith("-") else "an argument")
            raise UserError(f"{name} is empty; give it a value or leave it out; see `dgpbench {verb} --help`")
    module = importlib.import_module((VERBS.get(verb) or commands()[verb])[0])
    parser = Parser(prog="dgpbench")
    subparsers = parser.add_subparsers(dest="verb")
    module.add_parser(subparsers)
    known = [name for name in subparsers.choices[verb]._option_string_actions if name.startswith("--")]
    for word in argv[1:]:
        if re.fullmatch("-[a-z]{3,}(=.*)?", word):  # which argparse takes for -m with a value
            raise UserError(_unknown(verb, word, argv, known))
    args, rest = parser.parse_known_args(argv)
    words = next((getattr(args, name) for name in WORDS if hasattr(args, name)), None)
    for word in rest:  # name=value after an option, which argparse leaves over
        if word.startswith("-") or words is None:
            raise UserError(_unknown(verb, word, argv, known))
        words.append(word)
    plugins.use(getattr(args, "config_dir", ()))
    return module.main(args)


def _unknown(verb: str, word: str, argv: list[str], known: list[str]) -> str:
    """Return the message for an argument that a verb does not have, with the setting or option meant."""
    name, equals, value = word.lstrip("-").partition("=")
    takes = verb in ("run", "sweep", "tune", "active", "check", "compare")
    hint = ""
    if guess := get_close_matches(f"--{name}", known, 1, 0.8):
        hint = f"; did you mean '{guess[0]}'?"
    elif takes and len(name) > 1:
        from dgpbench.config.tree import groups, main_fields

        after = argv[argv.index(word) + 1 : argv.index(word) + 2] if word in argv else []
        value = value if equals else after[0] if after and not re.search("^-|=", after[0]) else ""
        name = name.replace("-", "_")
        fields = [field for field, *_ in main_fields()]
        tails = [field for field in fields if name in (field, field.rpartition(".")[2])]
        field = name if name in groups() else ALIASES.get(name, tails[0] if tails else None)
        hint = f"; overrides are written {name if field else 'name'}=VALUE"
        if field and (value or field != name):
            hint += f": did you mean '{field}={value or 'VALUE'}'?"
    return f"unknown argument '{word}'{hint}{'' if hint[-1:] == '?' else ';'} see `dgpbench {verb} --help`"


def _overview() -> str:
    width = max(map(len, commands()))
    lines = [f"  {name:<{width}}  {text}" for name, (_, text) in commands().items()]
    return "\n".join(
        [
            "usage: dgpbench COMMAND [arguments]",
            "",
            "Fair, fast, repeatable comparisons of deep Gaussian processes.",
            "",
            "commands:",
            *lines,
            "",
            "  dgpbench run model=dgp3 dataset=kin8nm    one run; more with `dgpbench run --help`",
            "  dgpbench COMMAND --help                   more about a command",
            "  dgpbench --version",
        ]
    )
