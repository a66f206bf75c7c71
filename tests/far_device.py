"""A device of its own for torch that computes on the CPU: finds tensors that are on the wrong one.

A tensor on ``far`` has no data that a CPU operation could read: an operation on tensors of both
devices raises, as with CUDA, and so does ``numpy()``. Each operation runs on the CPU tensor behind
it, so that results are those of a CPU, to the bit. It shows nothing of CUDA's own arithmetic.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import torch
from torch.utils import _pytree as tree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "far"

_MIXED = {
    "aten::copy_", "aten::index", "aten::index_put_", "aten::_index_put_impl_", "aten::index_put",
}  # fmt: skip
# operations that take a CPU tensor with others on CUDA: copies, and indices

_COMPOSITE = "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"
# torch's own kernels of these kinds would look at the memory of a tensor that has none

_near: dict[int, torch.Tensor] = {}


class FarTensor(torch.Tensor):
    """A tensor on ``far``."""


class _Module:
    """What torch asks of a device's module."""

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        return False

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def manual_seed_all(self, seed: int) -> None:
        """It draws from the CPU's generator."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


@cache
def install() -> str:
    """Make the device known to this process; returns its name."""
    _setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
    library = torch.library.Library("_", "IMPL")
    library.fallback(_run, "PrivateUse1")
    # autocast has no effect
    library.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    operations = torch.library.Library("aten", "IMPL")
    aten = torch.ops.aten
    own = {
        "aten::_to_copy": _to_copy,
        "aten::convolution": partial(_run, _contiguous(aten.convolution.default)),
        "aten::convolution_backward": partial(_run, _contiguous(aten.convolution_backward.default)),
        # a view that CPU memory may not allow: every tensor on far claims another order there
        "aten::view": partial(_run, aten.reshape.default),
    }
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_all_op_names():
        if name in own:
            operations.impl(name, own[name], "PrivateUse1")
        elif name.startswith("aten::") and any(has_kernel(name, kind) for kind in _COMPOSITE):
            packet, _, overload = name.removeprefix("aten::").partition(".")
            operation = getattr(getattr(aten, packet), overload or "default")
            operations.impl(name, partial(_run, operation), "PrivateUse1")
    _kept.extend([library, operations])
    _replace_calls()
    return NAME


def _replace_calls() -> None:
    """Calls of CUDA's own that nooch makes, and what such a device cannot have."""
    unpinned, generator = torch.empty, torch.Generator

    def empty(*args: Any, pin_memory: bool = False, **named: Any) -> torch.Tensor:
        del pin_memory
        return unpinned(*args, **named)

    class Generator(generator):  # type: ignore[misc, valid-type]
        def __new__(cls, device: str = "cpu") -> Any:
            del device
            return super().__new__(cls, "cpu")

    changed: Any = torch
    changed.empty = empty
    changed.Generator = Generator
    # views of other tensors are no inference tensors here
    changed.inference_mode = torch.no_grad
    changed.cuda.get_rng_state = lambda _device: torch.get_rng_state()
    changed.cuda.set_rng_state = lambda _state, _device: None
    changed.cuda.synchronize = lambda _device: None


_kept: list[Any] = []


def _is_far(value: Any) -> bool:
    return torch.is_tensor(value) and value.device.type == NAME


def _far(near: torch.Tensor) -> torch.Tensor:
    made = torch._C._acc.create_empty_tensor(tuple(near.shape), near.dtype)
    made.__class__ = FarTensor
    _near[made.untyped_storage()._cdata] = near
    return made


def _to_near(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return _near[value.untyped_storage()._cdata] if _is_far(value) else value


def _run(operation: Any, *args: Any, **named: Any) -> Any:
    """An operation on the tensors behind; what it changed in place is given back as it was."""
    tensors = [leaf for leaf in tree.tree_leaves((args, named)) if torch.is_tensor(leaf)]
    far = [each for each in tensors if _is_far(each)]
    name = getattr(operation, "name", str)()
    if far and name.partition(".")[0] not in _MIXED:
        near = [each for each in tensors if not _is_far(each) and each.dim()]
        if near:
            raise RuntimeError(f"{name}: a tensor on {NAME}, another on cpu")
    known = {id(_to_near(each)): each for each in tensors}
    to_cpu = str(named.get("device")) == "cpu"
    args, named = tree.tree_map(_to_near, (args, named))

    def given(value: Any) -> Any:
        if not torch.is_tensor(value) or to_cpu:
            return value
        return known[id(value)] if id(value) in known else _far(value)

    return tree.tree_map(given, operation(*args, **named))


def _to_copy(
    value: torch.Tensor, *, dtype: Any = None, device: Any = None, **_layout: Any
) -> torch.Tensor:
    made = torch.ops.aten._to_copy(_to_near(value), dtype=dtype)
    return _far(made) if device is None or device.type == NAME else made


def _contiguous(operation: Any) -> Any:
    """With values and results in the order in memory that every tensor on ``far`` claims."""

    def run(*args: Any) -> Any:
        given = [each.contiguous() if torch.is_tensor(each) else each for each in args]
        made = operation(*given)
        return tree.tree_map(
            lambda each: each.contiguous() if torch.is_tensor(each) else each, made
        )

    return run
