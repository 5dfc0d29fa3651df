"""Shell completion: a small function that asks `dgpbench _complete`, which reads conf/ and imports little."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from dgpbench.cli.registry import commands
from dgpbench.config import plugins
from dgpbench.config.kernel_names import families
from dgpbench.config.tree import conf_dir, groups, main_fields, options, plugin_folders

SCRIPTS = {
    "bash": """\
_dgpbench() {
  local line=${COMP_LINE:0:COMP_POINT} words before reply
  read -r -a words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  before=${words[${#words[@]}-1]}
  [[ $before == *=* && $COMP_WORDBREAKS == *=* ]] && before=${before%"${before##*=}"} || before=""
  COMPREPLY=()
  while IFS= read -r reply; do COMPREPLY+=("${reply#"$before"}"); done \\
    < <("${words[0]}" _complete "${words[@]:1}" 2>/dev/null)
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _dgpbench dgpbench
# Use: eval "$(dgpbench completion bash)", or put that line into ~/.bashrc
""",
    "zsh": """\
#compdef dgpbench
_dgpbench() {
  local -a replies
  replies=("${(@f)$("${words[1]}" _complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  compadd -S '' -- ${replies:#}
}
compdef _dgpbench dgpbench
# Use: eval "$(dgpbench completion zsh)" after compinit, or put that line into ~/.zshrc
""",
    "fish": """\
function __dgpbench
    set -l words (commandline -opc) (commandline -ct)
    $words[1] _complete $words[2..-1] 2>/dev/null
end
complete -c dgpbench -f -a '(__dgpbench)'
# Use: dgpbench completion fish | source
""",
}
WORDS = {"data": ("list", "show", "fetch", "verify"), "completion": tuple(SCRIPTS)}
TAKE_LISTS = ("sweep", "tune", "active", "show", "compare", "plot")  # values may be lists a,b
TAKE_OVERRIDES = (*TAKE_LISTS, "run", "rescore")


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "completion",
        help="print the shell function that completes dgpbench commands",
        description='Print the completion function of a shell. For bash: eval "$(dgpbench completion bash)"',
    )
    parser.add_argument("shell", choices=sorted(SCRIPTS))


def main(args: argparse.Namespace) -> int:
    print(SCRIPTS[args.shell], end="")
    return 0


def complete(words: Sequence[str]) -> int:
    """Print what the last of `words` may become, one completion per line."""
    for word in candidates(list(words) or [""]):
        print(word)
    return 0


def candidates(words: list[str]) -> list[str]:
    """What the last of `words` may become."""
    *before, current = words
    found = _found(before, current) if before else [*commands(), "--help", "--version"]
    return [word for word in found if word.startswith(current)]


def _found(before: list[str], current: str) -> Sequence[str]:
    """What may stand after the words `before`, of which the first is a verb."""
    verb, last = before[0], before[-1]
    option = current.startswith("-")
    if last == "--metric":
        return _metrics(verb)
    if not option and (verb, last) == ("compare", "--plot") and "=" in current:  # a word of the comparison
        return _overrides(current, before)
    if not option and (choices := _choices(verb, last)):
        return choices
    if verb == "data" and len(before) > 1:
        return list(options("dataset"))
    if verb in TAKE_OVERRIDES and not option:
        return _overrides(current, before)
    if verb in commands() and not option and (words := getattr(_module(verb), "words", None)):
        return words()
    return [*WORDS.get(verb, ()), *_flags(verb)]


def _module(verb: str) -> ModuleType:
    return importlib.import_module(commands()[verb][0])


def _flags(verb: str) -> list[str]:
    """Long options of a verb as its parser has them, --help last."""
    if verb not in commands():
        return ["--help"]
    parsers = argparse.ArgumentParser().add_subparsers()
    _module(verb).add_parser(parsers)
    actions = parsers.choices[verb]._actions  # argparse has no public list of them
    long = [name for action in actions for name in action.option_strings if name.startswith("--")]
    return [*(name for name in long if name != "--help"), "--help"]


def _metrics(verb: str) -> Sequence[str]:
    if verb == "active":
        from dgpbench.cli.active import METRICS as of_curves

        return of_curves
    from dgpbench.evaluate.metric_table import known_metrics

    return list(known_metrics())


def _choices(verb: str, flag: str) -> Sequence[str]:
    """Values of a flag that takes one of a few names."""
    if verb == "compare" and flag in ("--format", "--plot"):
        from dgpbench.cli.compare import FORMATS

        return FORMATS if flag == "--format" else list(plugins.entries("comparison_figure"))
    if verb == "plot" and flag == "--kind":
        from dgpbench.cli.plot import kinds_of_runs

        return kinds_of_runs()
    return ()


def _overrides(current: str, before: list[str]) -> list[str]:
    """Group names and fields up to the equals sign, then the options of that group or the known values."""
    folders = [conf_dir(), *plugin_folders(), *_config_dirs(before)]
    name, equals, _ = current.partition("=")
    if not equals:
        return [f"{word}=" for word in (*groups(folders), *(field for field, _, _ in main_fields()))]
    values = options(name, folders) if name in groups(folders) else _values(name)
    listed, comma, _ = current.rpartition(",")
    start = listed + comma if comma and before[0] in TAKE_LISTS else f"{name}="
    return [f"{start}{value}" for value in values if value not in listed.split("=")[-1].split(",")]


def _values(name: str) -> list[str]:
    """Values of a field that is one of a few names or a switch; none of other fields."""
    from dgpbench.config.checks import inference_fields
    from dgpbench.config.schema import CLOSED, MODEL, TOP, show_value

    section, _, rest = name.partition(".")
    if rest == "kernel":
        return families()
    known = {"": TOP, "model": MODEL, "inference": inference_fields({}), **CLOSED}
    fields = known.get(section if rest else "", {})
    field = fields.get(rest or name)
    choices = () if field is None else (True, False) if field.type is bool else field.choices
    return [show_value(choice) for choice in choices]


def _config_dirs(before: list[str]) -> list[Path]:
    pairs = zip(before, before[1:], strict=False)
    given = [Path(value).expanduser() for flag, value in pairs if flag == "--config-dir"]
    return [folder for folder in given if folder.is_dir()]
