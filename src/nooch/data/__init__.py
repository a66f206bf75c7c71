"""A Dataset is an annotated image collection: immutable, in one order, kept as a checked folder."""

from nooch.data.arrays import embedding_precision
from nooch.data.coverage import Gaps
from nooch.data.dataset import (
    Dataset,
    ImageId,
    as_dataset,
    load_dataset,
    open_dataset,
    position_of,
    replaced_columns,
)
from nooch.data.dataset_folder import PartRecord, divide, save_dataset, seal_dataset, write_part
from nooch.data.image_names import IMAGE_ENDINGS, ImageNames, MatchedNames, name_column
from nooch.data.splits import apply_split, named_splits
from nooch.data.table_files import (
    csv_bytes,
    encode_header,
    id_column,
    is_intact,
    load_header,
    parquet_bytes,
    read_arrays,
    read_table,
    sealed_header,
)
from nooch.data.table_schema import (
    ALL,
    ANNOTATED,
    COLUMN_OF_KIND,
    CORE_COLUMNS,
    KINDS,
    SPLITS,
    check_file_names,
    class_name,
    identifiers,
)

__all__ = [
    "ALL", "ANNOTATED", "COLUMN_OF_KIND", "CORE_COLUMNS", "IMAGE_ENDINGS", "KINDS", "SPLITS",
    "Dataset", "Gaps", "ImageId", "ImageNames", "MatchedNames", "PartRecord", "apply_split",
    "as_dataset", "check_file_names", "class_name", "csv_bytes", "divide", "embedding_precision",
    "encode_header", "id_column", "identifiers", "is_intact", "load_dataset", "load_header",
    "name_column", "named_splits", "open_dataset", "parquet_bytes", "position_of", "read_arrays",
    "read_table", "replaced_columns", "save_dataset", "seal_dataset", "sealed_header", "write_part",
]  # fmt: skip
