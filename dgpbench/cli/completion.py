"""Shell completion: a small function that asks `dgpbench _complete`, which reads conf/ and imports little."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from dgpbench.config.kernel_names import FAMILIES
from dgpbench.config.plugins import plugin_folders
from dgpbench.config.tree import conf_dir, groups, main_fields, options

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
FLAGS = {
    "run": ("--force", "--multirun", "--config-dir", "--cfg", "--verbose", "--quiet", "--help"),
    "tune": (
        "--trials",
        "--seed",
        "--sampler",
        "--dry-run",
        "--config-dir",
        "--verbose",
        "--quiet",
        "--help",
    ),
    "active": (
        "--initial",
        "--iterations",
        "--select",
        "--pool",
        "--metric",
        "--plot",
        "--csv",
        "--config-dir",
        "--quiet",
        "--help",
    ),
    "predict": ("--output", "--quantiles", "--results", "--help"),
    "merge": ("--results", "--allow", "--help"),
    "rescore": ("--results", "--allow", "--quiet", "--help"),
    "tables": (
        "--compare",
        "--show",
        "--variant",
        "--stats",
        "--against",
        "--calibration",
        "--frontier",
        "--missing",
        "--renew",
        "--format",
        "--config-dir",
        "--results",
        "--no-reference",
        "--help",
    ),
    "compare": (
        "--run",
        "--metric",
        "--against",
        "--tuned",
        "--format",
        "--plot",
        "--output",
        "--config-dir",
        "--results",
        "--no-reference",
        "--help",
    ),
    "plot": ("--kind", "--output", "--results", "--help"),
    "show": (
        "--each",
        "--failed",
        "--metric",
        "--sort",
        "--reverse",
        "--format",
        "--export",
        "--config-dir",
        "--results",
        "--reference",
        "--no-reference",
        "--help",
    ),
    "figures": ("--output", "--list", "--results", "--no-reference", "--help"),
    "submit": ("--name", "--check", "--results", "--help"),
    "verify": ("--results", "--no-reference", "--help"),
    "report": ("--output", "--results", "--no-reference", "--help"),
    "sweep": ("--retry", "--dry-run", "--detach", "--config-dir", "--verbose", "--quiet", "--help"),
    "repro": (
        "--budget",
        "--only",
        "--retry",
        "--dry-run",
        "--cells",
        "--reference",
        "--verbose",
        "--quiet",
        "--help",
    ),
    "status": ("--list", "--watch", "--json", "--results", "--help"),
    "gc": ("--days", "--dry-run", "--results", "--help"),
}
WORDS = {"data": ("list", "show", "fetch", "verify"), "completion": tuple(SCRIPTS)}
TAKE_OVERRIDES = ("run", "sweep", "show", "rescore", "compare", "plot")
TAKE_LISTS = ("sweep", "show", "compare", "plot")  # values may be lists a,b


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
    from dgpbench.cli import VERBS

    *before, current = words
    if not before:
        return [verb for verb in (*VERBS, "--help", "--version") if verb.startswith(current)]
    verb = before[0]
    if verb in ("tune", "active") and not current.startswith("-"):
        verb = "sweep"  # the same words
    if before[-1] == "--metric" and before[0] == "active":
        from dgpbench.cli.active import METRICS as found
    elif before[-1] == "--metric":
        from dgpbench.report.metrics import METRICS

        found = list(METRICS)
    elif (values := _choices(verb, before[-1])) and not current.startswith("-"):
        found = values if before[-1] != "--plot" or "=" not in current else _overrides(current, before)
    elif verb == "data" and len(before) > 1:
        found = list(options("dataset"))
    elif verb in TAKE_OVERRIDES and not current.startswith("-"):
        found = _overrides(current, before)
    elif verb == "tables" and not current.startswith("-"):
        from dgpbench.report.specs import names

        found = names()
    elif verb == "figures" and not current.startswith("-"):
        found = _figures()
    else:
        found = [*WORDS.get(verb, ()), *FLAGS.get(verb, ("--help",))]
    return [word for word in found if word.startswith(current)]


def _choices(verb: str, flag: str) -> list[str]:
    """Values of a flag that takes one of a few names."""
    if verb == "compare" and flag in ("--format", "--plot"):
        from dgpbench.cli.compare import FORMATS, PLOTS

        return list(FORMATS if flag == "--format" else PLOTS)
    if verb == "plot" and flag == "--kind":
        from dgpbench.cli.plot import KINDS

        return list(KINDS)
    return []


def _figures() -> list[str]:
    import yaml

    import dgpbench.report

    file = Path(dgpbench.report.__file__).parent / "figures" / "figures.yaml"
    return [str(name) for name in yaml.safe_load(file.read_text(encoding="utf-8"))]


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
    from dgpbench.config.inference import inference_fields
    from dgpbench.config.schema import CLOSED, MODEL, TOP, show_value

    section, _, rest = name.partition(".")
    if rest == "kernel":
        return list(FAMILIES)
    known = {"": TOP, "model": MODEL, "inference": inference_fields({}), **CLOSED}
    fields = known.get(section if rest else "", {})
    field = fields.get(rest or name)
    choices = () if field is None else (True, False) if field.type is bool else field.choices
    return [show_value(choice) for choice in choices]


def _config_dirs(before: list[str]) -> list[Path]:
    pairs = zip(before, before[1:], strict=False)
    given = [Path(value).expanduser() for flag, value in pairs if flag == "--config-dir"]
    return [folder for folder in given if folder.is_dir()]
