"""The one exception that means "the user can fix this": one clear line, exit code 2, no traceback."""

import errno

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
