"""The one exception that means "the user can fix this": one clear line, exit code 2, no traceback."""


class UserError(Exception):
    """Bad input. The message says what was wrong, what is allowed and what to do."""


class Diverged(Exception):
    """Numbers ceased to be finite: the run ends with status `diverged` and this message as its reason."""
