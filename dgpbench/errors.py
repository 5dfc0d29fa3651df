"""The one exception that means "the user can fix this": one clear line, exit code 2, no traceback."""

import errno
import re
from pathlib import Path

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
        super().__init__(f"run {record['status']}: {reason}; record: {run.path}")
        self.run = run


def message(error: BaseException) -> str:
    """An error's text in one line. TensorFlow puts a traceback before the text of an error in traced code."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    if lines[0] == "in user code:":
        return lines[-1].removeprefix(f"{type(error).__name__}: ")
    return lines[0]


def in_user_file(error: BaseException) -> str:
    """' (mine.py, line 12, in fit)': the last place of an error in a file of the user's own; '' if none is.

    Files of this package and of installed ones are not the user's.
    """
    places, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    places += TRACED.findall(str(error))
    own = [(name, line, where) for name, line, where in places if _is_users(Path(name))]
    return f" ({Path(own[-1][0]).name}, line {own[-1][1]}, in {own[-1][2]})" if own else ""


def _is_users(path: Path) -> bool:
    inside = PACKAGE in path.parents or {"site-packages", "dist-packages"} & set(path.parts)
    return path.is_file() and not inside and not _standard(path)


def _standard(path: Path) -> bool:
    """Whether a file is of Python's own library, or its command."""
    import os

    library = Path(os.__file__).resolve().parent
    return library in path.resolve().parents or path.name in ("dgpbench", "__main__.py")
