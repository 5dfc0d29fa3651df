"""The names of all kernels and the text form of a composed one. Light: used by config checks and completion.

    sum     = product ("+" product)*
    product = factor ("*" factor)*
    factor  = (name | "/" sum "/" | "(" sum ")") ("@" dims)*        dims = index | [first] ":" [end]

A slash opens a bracket where a factor may begin and closes it where one has ended. Round brackets mean the
same, but Hydra takes them in quotes only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from dgpbench.config import plugins
from dgpbench.config.suggest import nearest
from dgpbench.errors import UserError

NESTED = 8  # brackets inside brackets, at most
TOKEN = re.compile(r"\s*([A-Za-z_]\w*|@\s*(?:-?\d{1,6})?(?::(?:-?\d{1,6})?)?|[+*/()])\s*", re.ASCII)


def names() -> list[str]:
    """Return the names of all kernels, the built-in ones first."""
    return list(plugins.entries("kernel"))


def families() -> list[str]:
    """Return the names without those of single degrees: polynomial without polynomial1, polynomial2, ..."""
    known = names()
    return [
        name for name in known if name.rstrip("0123456789") == name or name.rstrip("0123456789") not in known
    ]


class KernelError(UserError):
    """A text that is no kernel. The message goes on where ``name=text`` stops."""


@dataclass(frozen=True)
class Term:
    """One node of the text: `op` is + or * over `terms`, or the name of a kernel; `dims` such as ("0:2",)."""

    op: str
    terms: tuple[Term, ...] = ()
    dims: tuple[str, ...] = ()


def read(text: object) -> Term:
    """The tree of a kernel's text."""
    return _Reader(_tokens(text)).whole()


def canonical(text: object) -> str:
    """The text as the command line takes it: no spaces, slashes for brackets."""
    read(text)
    return "".join(_tokens(text)).replace("(", "/").replace(")", "/")


def leaves(text: object) -> set[str]:
    """Return the names of the kernels in a text."""
    return {token for token in _tokens(text) if token[0].isalpha() or token[0] == "_"}


def _tokens(text: object) -> list[str]:
    if not isinstance(text, str) or not text.strip():
        raise KernelError(f"is no kernel; {_allowed()}")
    tokens, place = [], 0
    while place < len(text):
        if not (found := TOKEN.match(text, place)):
            raise KernelError(f"is no kernel: '{text[place:][:20]}' cannot be read; {_allowed()}")
        tokens.append(found[1].replace(" ", ""))
        place = found.end()
    return tokens


def _allowed() -> str:
    return f"a kernel is a sum or product of {', '.join(families())}, e.g. rbf*periodic+linear"


class _Reader:
    """Recursive descent over the tokens."""

    def __init__(self, tokens: list[str]):
        self.tokens, self.depth = tokens[::-1], 0

    def whole(self) -> Term:
        term = self.combined("+")
        if self.tokens:
            raise KernelError(f"is no kernel: '{self.tokens[-1]}' stands where + or * should")
        outermost = term.terms if term.op == "+" and not term.dims else (term,)
        whites = outermost.count(Term("white"))
        if whites == len(outermost):
            raise KernelError("is no kernel: white is noise and needs another kernel beside it: rbf+white")
        if whites > 1 or whites < _count(term, "white"):
            raise KernelError(
                "is no kernel: white is noise, so it stands once, in the outermost sum, without brackets, "
                "factors or dimensions: rbf*linear+white"
            )
        return term

    def combined(self, op: str) -> Term:
        """Terms joined by `op`; those of an inner sum of sums or product of products are taken up."""
        terms: list[Term] = []
        while not terms or self.accept(op):
            term = self.combined("*") if op == "+" else self.factor()
            terms += term.terms if term.op == op and not term.dims else [term]
        return terms[0] if len(terms) == 1 else Term(op, tuple(terms))

    def factor(self) -> Term:
        if not self.tokens:
            raise KernelError("is no kernel: it ends where a name should stand")
        token = self.tokens.pop()
        if token in ("/", "("):
            self.depth += 1
            if self.depth > NESTED:
                raise KernelError(f"is no kernel: more than {NESTED} brackets inside each other")
            term = self.combined("+")
            if not self.accept("/" if token == "/" else ")"):
                raise KernelError(f"is no kernel: a bracket '{token}' is not closed")
            self.depth -= 1
        elif token in names():
            term = Term(token)
        elif token[0].isalpha() or token[0] == "_":
            guess = nearest(token, names())
            hint = f"; did you mean '{guess}'?" if guess else f": '{token}' is unknown;"
            raise KernelError(f"is no kernel{hint} {_allowed()}")
        else:
            raise KernelError(f"is no kernel: '{token}' stands where a name should")
        while self.tokens and self.tokens[-1].startswith("@"):
            dims = self.tokens.pop()[1:]
            if dims in ("", ":"):
                raise KernelError("is no kernel: after @ comes an input such as @3 or a range such as @0:2")
            term = replace(term, dims=(*term.dims, dims))
        return term

    def accept(self, token: str) -> bool:
        if self.tokens and self.tokens[-1] == token:
            self.tokens.pop()
            return True
        return False


def _count(term: Term, name: str) -> int:
    return (term.op == name) + sum(_count(inner, name) for inner in term.terms)


def indices(dims: tuple[str, ...], input_dim: int) -> tuple[int, ...]:
    """The inputs that `dims` name, as in Python: "0:2" is 0 and 1, "-1" the last; each at most once."""
    out: list[int] = []
    for text in dims:
        ends = [int(end) if end else None for end in text.split(":")]
        inside = all(end is None or -input_dim <= end <= input_dim for end in ends)
        chosen = range(input_dim)[slice(*ends)] if len(ends) == 2 else range(input_dim)[ends[0] :][:1]
        if not inside or not chosen:
            raise KernelError(f"does not fit: @{text} is outside the inputs, which are 0 to {input_dim - 1}")
        out += chosen
    if len(set(out)) < len(out):
        raise KernelError(f"does not fit: @{'@'.join(dims)} names an input twice")
    return tuple(out)
