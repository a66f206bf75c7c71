# listed once: the module reads this file
from .base.engines import LocalEngine as LocalEngine
from .base.split_plan import SplitPlan as SplitPlan
from .criteria import phi_preset as phi_preset, read_thresholds as read_thresholds
from .data import divide as divide
from .data.importing.attributes import (
    attribute_table as attribute_table,
    with_attributes as with_attributes,
)
from .data.importing.import_dataset import with_split as with_split
from .data.importing.table_roles import Hints as Hints
from .data.readers.boxes import BoxReading as BoxReading
from .data.readers.coco.reader import CocoReading as CocoReading
from .data.readers.contract import read as read
from .data.readers.label_maps import MapReading as MapReading
from .data.readers.table_layouts import (
    Columns as Columns,
    LongTable as LongTable,
    TableOfImages as TableOfImages,
)
from .data.readers.tables import TableReading as TableReading
from .data.readers.waterbirds import read_waterbirds as read_waterbirds
from .inference.annotate import AnnotationReading as AnnotationReading
from .inference.predict import find_images as find_images, save_predictions as save_predictions
from .suites import suite_thresholds as suite_thresholds
