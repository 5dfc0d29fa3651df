"""What must be set before TensorFlow starts, in one place: import `tf` from here first."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")  # TF32 has 10 bits: it would undo `precision=mixed`

# Chunks of a batch run side by side, one thread each (spec.chunk_sizes): threads inside XLA's products, or an
# order of operations that makes room for more of them at the price of memory, only cost time.
_XLA = ("--xla_cpu_multi_thread_eigen=false", "--xla_cpu_enable_concurrency_optimized_scheduler=false")
for _flag in _XLA:
    if _flag.split("=")[0] not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_flag}".strip()

SIDE_BY_SIDE = 4  # threads: with more, there are not operations enough to keep them busy
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4


def tune_malloc() -> bool:
    """Keep large buffers in the heap between steps instead of giving them back to the system.

    glibc returns every block above 32 MB at once, so that each step faults its pages in again; for a batch of
    10,000 that costs time in every step. Returns whether it took effect (other C libraries: no).
    """
    try:
        libc = ctypes.CDLL("libc.so.6")
        ok = [libc.mallopt(_M_MMAP_MAX, 0), libc.mallopt(_M_TRIM_THRESHOLD, ctypes.c_int(2**31 - 1))]
        return all([*ok, libc.mallopt(_M_TOP_PAD, 256 << 20)])
    except (OSError, AttributeError):
        return False


@contextmanager
def quiet_start() -> Iterator[None]:
    """Hold back what native code prints on stderr while it starts; shown after all if it fails."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as sink:
        saved = os.dup(2)
        os.dup2(sink.fileno(), 2)
        try:
            yield
        except BaseException:
            sink.seek(0)
            os.write(saved, sink.read())
            raise
        finally:
            os.dup2(saved, 2)
            os.close(saved)


MALLOC_TUNED = tune_malloc()

with quiet_start():
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(False)
    tf.get_logger().setLevel("ERROR")
    GPUS = tf.config.list_physical_devices("GPU")


def set_threads(threads: int | None, inside: bool = True) -> int:
    """Use `threads` cores for TensorFlow; all of those this process may use when None. Returns the number.

    Without `inside`, few threads run operations side by side and none of them inside an operation.
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threading, wanted = tf.config.threading, threads or available
    pools = (wanted if inside or wanted > SIDE_BY_SIDE else 1, wanted)
    if pools != (threading.get_intra_op_parallelism_threads(), threading.get_inter_op_parallelism_threads()):
        try:
            threading.set_intra_op_parallelism_threads(pools[0])
            threading.set_inter_op_parallelism_threads(pools[1])
        except RuntimeError:  # TensorFlow has started: its thread pools cannot change any more
            return threading.get_inter_op_parallelism_threads() or available
    return wanted


def choose_device(wanted: str) -> str:
    """The TensorFlow device for `auto`, `cpu` or `gpu`, or for a device's name as a record has it."""
    from dgpbench.errors import UserError

    if wanted.startswith("gpu") and not GPUS:
        raise UserError(
            "device=gpu, but TensorFlow sees no GPU; use device=auto or cpu, or install dgpbench[gpu]"
        )
    return "/GPU:0" if GPUS and not wanted.startswith("cpu") else "/CPU:0"
