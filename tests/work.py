"""Functions that worker processes can import."""

import os
import signal
import time

from nooch.errors import InputError, MissingExtraError


def square(x):
    time.sleep(0.05 if x == 0 else 0)
    return x * x


def refuse(x):
    if x == 1:
        raise InputError("is broken", where=f"record {x}", allowed="others", remedy="mend it")
    if x == 2:
        raise MissingExtraError("torch", "train", "training")
    return x


def who(_):
    time.sleep(0.2)
    return os.getpid()


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)
