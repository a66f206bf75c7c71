"""Croissant 1.0 metadata (mlcommons.org/croissant) of a folder of Parquet files: which files, their
hashes, their columns.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from nooch.exports.export_contract import Content
from nooch.exports.licences import licences_text
from nooch.exports.parquet_parts import COLUMNS, PAPER, Part

__all__ = ["croissant"]

# the context that the specification prescribes, word for word
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "equivalentProperty": "cr:equivalentProperty",
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_TYPES = {"Int64": "sc:Integer", "Int8": "sc:Integer", "Float64": "sc:Float", "String": "sc:Text"}


def croissant(content: Content, parts: Sequence[Part]) -> str:
    """The text of ``croissant.json``: a FileObject and a RecordSet for each file."""
    document = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": "out-of-context-challenge-sets",
        "description": (
            "Images whose context misleads, by criterion, split and task; found with nooch."
        ),
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "license": _licence(content),
        "citeAs": PAPER,
        "version": "1.0.0",
        "distribution": [_file(part) for part in parts],
        "recordSet": [_records(part) for part in parts],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _licence(content: Content) -> str | list[str]:
    known = [licence.get("url") or licence["name"] for licence in content.licences]
    return known or licences_text(content.licences).splitlines()[0]


def _file(part: Part) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": f"{part.config}/{part.name}.parquet",
        "name": f"{part.config}/{part.name}.parquet",
        "contentUrl": part.path,
        "contentSize": f"{part.bytes} B",
        "encodingFormat": "application/x-parquet",
        "sha256": part.sha256,
    }


def _records(part: Part) -> dict[str, Any]:
    name = f"{part.config}/{part.name}"
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": f"{part.rows} rows of the criterion {part.criterion}, split {part.split}.",
        "field": [_field(name, column, kind, part) for column, kind in part.columns.items()],
    }


def _field(records: str, column: str, kind: str, part: Part) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"{records}/{column}",
        "name": column,
        "description": COLUMNS[column],
        "dataType": _TYPES[kind],
        "source": {
            "fileObject": {"@id": f"{part.config}/{part.name}.parquet"},
            "extract": {"column": column},
        },
    }
