"""Functions that worker processes can import."""

import multiprocessing
import os
import signal
import sys
import time

from waiting import HANGS

from nooch.base.errors import InputError, MissingExtraError


def square(x):
    time.sleep(0.05 if x == 0 else 0)
    return x * x


def refuse(x):
    if x == 1:
        raise InputError("is broken", where=f"record {x}", allowed="others", remedy="fix it")
    if x == 2:
        raise MissingExtraError("torch", "train", "training")
    return x


def who(_):
    time.sleep(0.2)
    return os.getpid()


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(item):
    """Kill the worker the first time that this item is run; write a line for every start."""
    number, folder = item
    with (folder / "begun").open("a") as file:
        file.write(f"{number}\n")
    _die_at_two(number, folder)
    return number * 10


def _die_at_two(number, folder):
    marker = folder / f"died-{number}"
    if number == 2 and not marker.exists():
        marker.touch()
        die(number)


def printing(x):
    print(f"working on {x}")  # noqa: T201
    return refuse(x)


def count_up(item):
    """Write numbers into a file, two a second; resume after the last."""
    path, most = item
    path.touch()
    while (done := len(path.read_text().split())) < most:
        with path.open("a") as file:
            file.write(f"{done}\n")
        time.sleep(0.5)
    return done


def gpu_for_a_while(folder):
    """The visible GPUs, which no other job has meanwhile."""
    seen = os.environ["CUDA_VISIBLE_DEVICES"]
    for name in seen.split(","):
        # fails where another job has it
        (folder / f"gpu-{name}").mkdir()
    time.sleep(0.2)
    for name in seen.split(","):
        (folder / f"gpu-{name}").rmdir()
    return seen


def alone_on_its_node(folder):
    """The node of a Ray cluster, and the visible GPUs, which no other job of the node has."""
    import ray

    node = folder / ray.get_runtime_context().get_node_id()
    node.mkdir(exist_ok=True)
    return node.name, gpu_for_a_while(node)


def die_with_a_gpu(item):
    """The visible GPU; the first time that it is run, one item kills its worker."""
    number, folder = item
    with (folder / "seen").open("a") as file:
        file.write(f"{number} {os.environ['CUDA_VISIBLE_DEVICES']}\n")
    _die_at_two(number, folder)
    return gpu_for_a_while(folder)


class Awkward(Exception):  # noqa: N818
    """An error that cannot be made again from its message."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def awkward(x):
    if x == 1:
        raise Awkward("this", "that")
    if x == 2:
        return lambda: x
    if x == 3:
        sys.exit(3)
    return bytes(x)


def die_with_a_child(item):
    """Die the first time that item 0 is run, and leave a child that holds all open files."""
    number, folder = item
    marker = folder / "died"
    if number == 0 and not marker.exists():
        marker.touch()
        child = os.fork()
        if child == 0:
            time.sleep(HANGS)
            os._exit(0)
        (folder / "child").write_text(str(child))
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def asked_to_end(item):
    """Be asked to end, the first time that item 0 is run, as by a system that shuts down."""
    number, folder = item
    marker = folder / "asked"
    if number == 0 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(HANGS)
    return "done"


def mark(path):
    path.touch()
    return path.name


def leave_after_the_driver(folder):
    """Work until asked to end, and take longer to leave than the driver."""
    try:
        (folder / "begun").touch()
        time.sleep(HANGS)
    finally:
        multiprocessing.parent_process().join()
        time.sleep(0.2)
        (folder / "left").touch()
