"""Tests, and the processes they start, use a cache folder of their own, not the user's."""

import os
import tempfile

_folder = tempfile.TemporaryDirectory(prefix="dgpbench-cache-")
os.environ["DGPBENCH_CACHE"] = _folder.name
