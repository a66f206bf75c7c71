"""Croissant 1.0 metadata (mlcommons.org/croissant): Parquet files, their hashes and columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from nooch.exports.export_contract import Content
from nooch.exports.licenses import licenses_text
from nooch.exports.parquet_parts import COLUMNS, PAPER, ParquetPart

__all__ = ["croissant"]

_TERMS = """
    citeAs column conformsTo cr rai data dataType equivalentProperty dct examples extract field
    fileProperty fileObject fileSet format includes isLiveDataset jsonPath key md5 parentField path
    recordSet references regex repeated replace samplingRate sc separator source subField transform
"""
_NOT_CR = {
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "sc": "https://schema.org/",
}
# the context that the specification prescribes
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{term: _NOT_CR.get(term, f"cr:{term}") for term in _TERMS.split()},
}
_TYPES = {"Int64": "sc:Integer", "Int8": "sc:Integer", "Float64": "sc:Float", "String": "sc:Text"}


def croissant(content: Content, files: Sequence[ParquetPart]) -> str:
    """The text of ``croissant.json``: a FileObject and a RecordSet for each file."""
    licences = [licence.get("url") or licence["name"] for licence in content.licences]
    document = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": "out-of-context-challenge-sets",
        "description": (
            "Images whose context misleads, by criterion, split and task; found with nooch."
        ),
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "license": licences or licenses_text(content.licences).splitlines()[0],
        "citeAs": PAPER,
        "version": "1.0.0",
        "distribution": [_file(part) for part in files],
        "recordSet": [_records(part) for part in files],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _file(part: ParquetPart) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": f"{part.config}/{part.name}.parquet",
        "name": f"{part.config}/{part.name}.parquet",
        "contentUrl": part.path,
        "contentSize": f"{part.bytes} B",
        "encodingFormat": "application/x-parquet",
        "sha256": part.sha256,
    }


def _records(part: ParquetPart) -> dict[str, Any]:
    name = f"{part.config}/{part.name}"
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": f"{part.rows} rows of the criterion {part.criterion}, split {part.split}.",
        "field": [_field(name, column, kind, part) for column, kind in part.columns.items()],
    }


def _field(records: str, column: str, kind: str, part: ParquetPart) -> dict[str, Any]:
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
