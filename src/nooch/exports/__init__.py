"""An export is ``export(content, out, *, overwrite, ...) -> Exported``: sets in another format.

Everything is written atomically and carries the licenses of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from nooch.errors import check_one_of
from nooch.exports.export_contract import Content, Exported, Key
from nooch.import_string import imported, is_named

__all__ = ["EXPORTS", "Content", "Exported", "Key", "exporter"]

EXPORTS = MappingProxyType(
    {
        "ids": "nooch.exports.id_lists:export_ids",
        "npy": "nooch.exports.npy:export_npy",
        "coco": "nooch.exports.coco_export:export_coco",
        "csv": "nooch.exports.group_csv:export_csv",
        "hf": "nooch.exports.hugging_face:export_hf",
        "table": "nooch.exports.viewer_table:export_table",
        "fiftyone": "nooch.exports.fiftyone_export:export_fiftyone",
        "pope": "nooch.exports.pope_export:export_pope",
        "lmms-eval": "nooch.exports.lmms_eval_export:export_lmms_eval",
        "vlmevalkit": "nooch.exports.vlmevalkit_export:export_vlmevalkit",
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
