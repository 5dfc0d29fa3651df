"""Signals that ask a sweep to stop."""

from __future__ import annotations

import signal
import threading
from typing import Any


class StopSignals:
    """While it is entered, SIGINT, SIGTERM and SIGHUP (unless nohup has it ignored) are noted in a list
    instead of ending this process."""

    def __init__(self, received: list[int]):
        self.received = received
        self.previous: dict[int, Any] = {}  # handlers

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                    continue
                self.previous[number] = signal.signal(number, lambda n, frame: self.received.append(n))

    def __exit__(self, *exc):
        for number, handler in self.previous.items():
            signal.signal(number, handler)
