"""Inputs that once made a reader fail are errors now; every target reads its seeds."""

import pytest
from fuzz_targets import make_targets
from fuzzing import FAILURES, failure_of
from mutations import minimal, mutated

KEPT = sorted(path for path in FAILURES.glob("*/*") if path.is_file())


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    return make_targets(tmp_path_factory.mktemp("targets"))


@pytest.mark.parametrize("kept", KEPT, ids=[f"{p.parent.name}-{p.name}" for p in KEPT])
def test_what_once_failed_is_an_error_now(kept, targets):
    assert not failure_of(targets[kept.parent.name], kept.read_bytes())


def test_seeds_are_valid_and_changed_inputs_are_no_failures(targets):
    from random import Random

    for name, target in targets.items():
        for seed in target.seeds:
            target.read(seed)
        random = Random(name)
        for _ in range(3):
            data = mutated(target.seeds[0], target.seeds, random, is_json=target.is_json)
            assert not failure_of(target, data), (name, data)


def test_a_failure_is_made_shorter():
    assert minimal(b"some text with x in it", lambda data: b"x" in data) == b"x"
