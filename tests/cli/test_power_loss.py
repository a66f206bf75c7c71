"""The power fails at any moment of import, embed, find or bench: the old or the new version is
whole, what was done is there, and the same command then succeeds.

NOOCH_TEST_LOSSES=all looks at every state that a loss could leave, not at a sample.
"""

import os

import numpy as np
import pytest
from coco_files import document, image, write
from power_loss import Losses, compiled
from small_world import contents, make_world

from nooch.integrity import fsck

LOSSES = os.environ.get("NOOCH_TEST_LOSSES", "6")
WORKERS_IMPORT = "import coco --things ../{} --captions ../captions.json --split 50/25/25 data"
IMPORT = f"{WORKERS_IMPORT} --processes 1"
COMMANDS = {
    # name: (what was done before, the command, what it writes, how that is replaced)
    "import": ([], IMPORT.format("a.json"), "data", "exists already"),
    "import in parts": (
        [], f"{WORKERS_IMPORT.format('a.json')} --part-size 8", "data", "exists already"
    ),
    "import again": (
        [IMPORT.format("a.json")], f"{IMPORT.format('b.json')} --overwrite", "data", None
    ),
    "embed": ([IMPORT.format("a.json")], "tools embed data --encoder lexical", "data", None),
    "tools embed in parts": (
        [f"{IMPORT.format('a.json')} --part-size 8"],
        "tools embed data --encoder lexical",
        "data",
        None,
    ),
    "find": (["world"], "find dataset --criterion ce --out found", "found", "exists already"),
    "find again": (
        ["world"], "find dataset --tasks car --alpha 0.01 --out suite --overwrite", "suite", None
    ),
    "bench": (
        ["world"],
        "train bench dataset suite --embedding made --config ../bench.yaml --out runs",
        "runs", None,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("library"))


def _inputs(folder):
    """Annotations that differ in one object, and a bench that takes a second."""
    images = [image(7 * i + 3, 40, 30) for i in range(24)]
    things = [
        {"image_id": one["id"], "category_id": 1 + 2 * (i % 2), "area": 10.0 + i}
        for i, one in enumerate(images)
    ]
    write(folder / "a.json", document(images, things))
    write(folder / "b.json", document(images, things[1:]))
    captions = [{"image_id": one["id"], "caption": f"view {i % 5}"} for i, one in enumerate(images)]
    write(folder / "captions.json", {"images": images, "annotations": captions})
    grid = "tasks: [car]\nseeds: [0]\nmethods: {erm: }\nlr: 1e-2\nepochs: 2\npatience: 2\n"
    (folder / "bench.yaml").write_text(grid)


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_lost(name, exchange, tmp_path, run_cli, library):
    before, command, target, refused = COMMANDS[name]
    if not exchange and not name.endswith("again"):
        pytest.skip("nothing is replaced")
    disk = tmp_path / "disk"
    disk.mkdir()
    _inputs(tmp_path)
    for one in before:
        if one == "world":
            make_world(disk, epochs=2)
        else:
            run_cli(one, cwd=disk).ok()
    more = {} if exchange else {"NOOCH_LOSS_NO_EXCHANGE": "1"}
    old = contents(disk / target)
    losses = Losses.recorded(command, disk, library, tmp_path / "log", **more)
    new = contents(disk / target)
    states = losses.states()
    ended = {len(states) - 1, len(states) - 2}
    chosen = range(len(states))
    if LOSSES != "all":
        chosen = sorted({*np.linspace(0, len(states) - 1, int(LOSSES)).astype(int), *ended})
    for number in chosen:
        state = states[number]
        state.restore(disk)
        print(state.done, state.last)  # noqa: T201
        moved = disk / f".{target}.old"
        there = moved if not exchange and not (disk / target).exists() else disk / target
        _check(contents(there), old, new, done=state.done == len(losses.operations))
        ran = run_cli(command, cwd=disk)
        if ran.code:
            # the folder had got its name already
            assert refused, (state.last, ran.err)
            assert refused in ran.err, (state.last, ran.err)
        # a lock that is left has no effect
        found = {name: one for name, one in contents(disk / target).items() if name[-5:] != ".lock"}
        assert found == new, (state.done, state.last)
        assert fsck(disk / target).is_whole
    print(f"{name}: {len(losses.operations)} operations, {len(chosen)} of {len(states)} states")  # noqa: T201


def _check(found, old, new, *, done):
    """The old or the new version is whole; the new one where the command had ended."""
    if "runs.json" in new and not done:
        # jobs are done one after the other, each as a whole
        jobs = {
            name for name in found if name.startswith("jobs/") and not name.startswith("jobs/.")
        }
        assert all(found[name] == new[name] for name in jobs)
        assert {name.rsplit("/", 1)[0] for name in jobs} <= {
            name.rsplit("/", 1)[0] for name in jobs if name.endswith("/done")
        }
        return
    whole = [version for version in (old, new) if version and version.items() <= found.items()]
    assert new in whole if done else whole or not (old or found)
