# the public names of nooch.data, listed once: __init__.py reads this file
from .arrays import embedding_precision as embedding_precision, read_arrays as read_arrays
from .coverage import Gaps as Gaps
from .dataset import (
    Dataset as Dataset,
    ImageId as ImageId,
    as_dataset as as_dataset,
    load_dataset as load_dataset,
    open_dataset as open_dataset,
    position_of as position_of,
    replaced_columns as replaced_columns,
)
from .dataset_folder import (
    PartRecord as PartRecord,
    divide as divide,
    save_dataset as save_dataset,
    seal_dataset as seal_dataset,
    write_part as write_part,
)
from .image_names import (
    IMAGE_ENDINGS as IMAGE_ENDINGS,
    ImageNames as ImageNames,
    MatchedNames as MatchedNames,
    name_column as name_column,
)
from .splits import apply_split as apply_split, named_splits as named_splits
from .table_files import (
    csv_bytes as csv_bytes,
    encode_header as encode_header,
    id_column as id_column,
    is_intact as is_intact,
    load_header as load_header,
    parquet_bytes as parquet_bytes,
    read_table as read_table,
    sealed_header as sealed_header,
)
from .table_schema import (
    ALL as ALL,
    ANNOTATED as ANNOTATED,
    COLUMN_OF_KIND as COLUMN_OF_KIND,
    CORE_COLUMNS as CORE_COLUMNS,
    KINDS as KINDS,
    SPLITS as SPLITS,
    check_file_names as check_file_names,
    class_name as class_name,
    identifiers as identifiers,
)
