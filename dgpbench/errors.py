"""The one exception that means "the user can fix this": one clear line, exit code 2, no traceback."""


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
