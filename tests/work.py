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


def die_once(item):
    """Kill the worker the first time that this item is done; leave a line for every time that one was begun."""
    number, folder = item
    with (folder / "begun").open("a") as file:
        file.write(f"{number}\n")
    marker = folder / f"died-{number}"
    if number == 2 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * 10


def printing(x):
    print(f"working on {x}")  # noqa: T201
    return refuse(x)
