"""The one exception that means "the user can fix this": one clear line, exit code 2, no traceback."""

import errno
import re
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent
TRACED = re.compile(r'File "([^"]+)", line (\d+), in ([\w<>]+)')  # TensorFlow tells places in traced code so

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
DISK_FAULTS = (*NO_SPACE, errno.EROFS, errno.EIO, errno.ESTALE)  # true of the machine, not of what runs on it


def disk_fault(error: OSError) -> str:
    """A fault of the disk as one line with what to do."""
    where = f": {error.filename}" if error.filename else ""
    return (
        f"{error.strerror or error}{where}; free space, see to the disk, or name another folder with "
        "paths.results=DIR or paths.datasets=DIR"
    )


class UserError(Exception):
    """Bad input. The message says what was wrong, what is allowed and what to do."""


def import_gpflow() -> Any:
    """Return GPflow; raise UserError with the command that installs it."""
    try:
        import gpflow
    except ModuleNotFoundError as error:
        if error.name != "gpflow":
            raise
        raise UserError("GPflow is not installed; run: pip install --no-deps gpflow==2.11.2") from None
    return gpflow


class ModelError(ValueError):
    """A model broke its contract. The message says where, what came and what was expected."""


class Diverged(Exception):
    """Numbers ceased to be finite: the run ends with status `diverged` and this message as its reason."""


class Interrupted(Exception):
    """A signal asked the run to stop; its checkpoint is written and the same command resumes it."""

    def __init__(self, signal_number: int, step: int = 0, text: str | None = None):
        default = f"stopped by signal {signal_number} at step {step}; the same command resumes it"
        super().__init__(text or default)
        self.signal_number = signal_number


class RunFailed(Exception):
    """A run asked for from Python did not end well; `run` has its record, with the reason."""

    def __init__(self, run):
        record = run.record
        reason = " ".join(str(record["reason"] or "no reason recorded").split())
        super().__init__(f"run {record.status}: {reason}; record: {run.path}")
        self.run = run


def message(error: BaseException) -> str:
    """An error's text in one line. TensorFlow puts a traceback before the text of an error in traced code."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    if lines[0] == "in user code:":
        return lines[-1].removeprefix(f"{type(error).__name__}: ")
    return lines[0]


def in_user_file(error: BaseException) -> str:
    """Return ' (mine.py, line 12, in fit)', the last place of an error in a file of the user, or ''."""
    place = user_place(error)
    return f" ({place[0]}, line {place[1]}, in {place[2]})" if place else ""


def user_place(error: BaseException) -> tuple[str, int, str] | None:
    """Return file name, line and function of the last place of an error in a file of the user.

    Files of this package and of installed packages are not the user's.
    """
    places, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    places += [(name, int(line), where) for name, line, where in TRACED.findall(str(error))]
    own = [(Path(name).name, line, where) for name, line, where in places if _is_users(Path(name))]
    return own[-1] if own else None


def source_of(thing: object) -> str:
    """Return 'mine.py:14: ', where a class, function or method of the user begins; '' if it is not theirs."""
    import inspect

    try:
        if not isinstance(thing, type):
            code = inspect.unwrap(thing).__code__  # type: ignore[arg-type]  # else AttributeError
            file, line = code.co_filename, code.co_firstlineno
        else:
            file, line = inspect.getfile(thing), inspect.getsourcelines(thing)[1]
    except (AttributeError, TypeError, OSError):
        return ""
    return f"{Path(file).name}:{line}: " if _is_users(Path(file)) else ""


def _is_users(path: Path) -> bool:
    inside = PACKAGE in path.parents or {"site-packages", "dist-packages"} & set(path.parts)
    return path.is_file() and not inside and not _standard(path)


def _standard(path: Path) -> bool:
    """Whether a file is of Python's own library, or its command."""
    import os

    library = Path(os.__file__).resolve().parent
    return library in path.resolve().parents or path.name in ("dgpbench", "__main__.py")
