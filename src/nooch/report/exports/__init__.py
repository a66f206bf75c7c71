"""An export is ``export(content, out, *, overwrite, ...) -> Exported``: sets in another format.

Everything is written atomically and carries the licenses of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from nooch.base.calls import imported, is_named
from nooch.base.errors import check_one_of
from nooch.report.exports.contract import Content, Exported, Key

__all__ = ["EXPORTS", "Content", "Exported", "Key", "exporter"]

EXPORTS = MappingProxyType(
    {
        "ids": "nooch.report.exports.lists:export_ids",
        "coco": "nooch.report.exports.coco:export_coco",
        "coco-slices": "nooch.report.exports.coco:export_coco_slices",
        "csv": "nooch.report.exports.lists:export_csv",
        "hf": "nooch.report.exports.hugging_face:export_hf",
        "fiftyone": "nooch.report.exports.fiftyone:export_fiftyone",
        "pope": "nooch.report.exports.question_files:export_pope",
        "images": "nooch.report.exports.question_files:export_images",
        "lmms-eval": "nooch.report.exports.question_files:export_lmms_eval",
        "vlmevalkit": "nooch.report.exports.question_files:export_vlmevalkit",
    }
)
"""Name -> where the export is; imported when it is used."""


def exporter(name: str) -> Callable[..., Exported]:
    """The function of a format: one of ``EXPORTS``, or a custom ``package.module:function``. Raises
    ParameterError: there is no such format, or a custom one cannot be imported.
    """
    target = name if is_named(name) else EXPORTS[check_one_of("export format", name, EXPORTS)]
    function: Callable[..., Exported] = imported(target, f"export {name!r}")
    return function
