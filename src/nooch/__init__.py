"""Find the images whose context misleads a vision model.

    import nooch

    data = nooch.load_dataset("coco")
    suite = nooch.find(data, {"ce": nooch.CE(alpha=0.05, beta=0.1)}, tasks=["car", "tie"])
    suite.set("ce", "car", "test").ids("hard_positive")

Names are imported when they are first used, so that ``import nooch`` and the command line start at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

from nooch.version import __version__

if TYPE_CHECKING:
    from nooch.benching.bench_config import read_config
    from nooch.caches.features import FeatureOptions, extract_features, load_features
    from nooch.caches.pixels import PixelCache, build_pixels
    from nooch.challenge import ChallengeSet, Suite, Sweep, load_suite, save_suite, suite_thresholds
    from nooch.criteria import CE, Attribute, Combination, ContextScores, Gist, preset, read_thresholds
    from nooch.data import Dataset, divide, load_dataset, open_dataset, save_dataset
    from nooch.engines import LocalEngine, engine
    from nooch.errors import NoochError
    from nooch.evaluation import Predictions, Scores, evaluate
    from nooch.exports.torch_dataset import torch_dataset
    from nooch.models.backbones import load_backbone
    from nooch.models.model_kinds import load_task_model
    from nooch.models.task_maps import read_task_map
    from nooch.plans import SplitPlan
    from nooch.published import published_suite, read_labels, read_published, verify
    from nooch.published.results import paper_results
    from nooch.readers.boxes import BoxReading, read_boxes
    from nooch.readers.coco import CocoReading, read_coco
    from nooch.readers.label_maps import MapReading, read_label_maps
    from nooch.readers.table import Columns, read_long_table, read_table_of_images
    from nooch.readers.table_layouts import LongTable, TableOfImages
    from nooch.readers.table_reading import TableReading
    from nooch.report import save_scores, save_sweep
    from nooch.study.attributes import attribute_table, with_attributes
    from nooch.study.benching import bench
    from nooch.study.collecting import collect
    from nooch.study.embedding import embed
    from nooch.study.exporting import export
    from nooch.study.figure_sources import Sources
    from nooch.study.figures import figure_data, save_figures
    from nooch.study.finding import find
    from nooch.study.galleries import contact_sheet, save_gallery
    from nooch.study.importing import import_dataset, with_split
    from nooch.study.loss_sweeping import sweep_losses
    from nooch.study.planning import plan_bench, plan_finetune
    from nooch.study.predicting import find_images, predict, save_predictions
    from nooch.study.reporting import write_report
    from nooch.study.results import read_results
    from nooch.study.showing import explain, overlaps, summary
    from nooch.study.statements import judge_statements
    from nooch.study.sweeping import sweep_thresholds
    from nooch.study.truth import find_score
    from nooch.study.waterbirds import read_waterbirds, score_waterbirds, waterbirds_table
    from nooch.study.waterbirds_making import make_waterbirds
    from nooch.training.methods import Method

_HOME = {
    "nooch.challenge": ("ChallengeSet", "Suite", "Sweep", "load_suite", "save_suite", "suite_thresholds"),
    "nooch.criteria": ("CE", "Attribute", "Combination", "ContextScores", "Gist", "preset", "read_thresholds"),
    "nooch.data": ("Dataset", "divide", "load_dataset", "open_dataset", "save_dataset"),
    "nooch.engines": ("LocalEngine", "engine"),
    "nooch.study.attributes": ("attribute_table", "with_attributes"),
    "nooch.errors": ("NoochError",),
    "nooch.evaluation": ("Predictions", "Scores", "evaluate"),
    "nooch.exports.torch_dataset": ("torch_dataset",),
    "nooch.plans": ("SplitPlan",),
    "nooch.published": ("published_suite", "read_labels", "read_published", "verify"),
    "nooch.readers.boxes": ("BoxReading", "read_boxes"),
    "nooch.readers.coco": ("CocoReading", "read_coco"),
    "nooch.readers.label_maps": ("MapReading", "read_label_maps"),
    "nooch.readers.table_layouts": ("LongTable", "TableOfImages"),
    "nooch.readers.table_reading": ("TableReading",),
    "nooch.readers.table": ("Columns", "read_long_table", "read_table_of_images"),
    "nooch.report": ("save_scores", "save_sweep"),
    "nooch.study.benching": ("bench",),
    "nooch.study.planning": ("plan_bench", "plan_finetune"),
    "nooch.study.predicting": ("find_images", "predict", "save_predictions"),
    "nooch.study.waterbirds": ("read_waterbirds", "score_waterbirds", "waterbirds_table"),
    "nooch.study.waterbirds_making": ("make_waterbirds",),
    "nooch.study.truth": ("find_score",),
    "nooch.models.model_kinds": ("load_task_model",),
    "nooch.models.task_maps": ("read_task_map",),
    "nooch.study.reporting": ("write_report",),
    "nooch.study.results": ("read_results",),
    "nooch.study.statements": ("judge_statements",),
    "nooch.published.results": ("paper_results",),
    "nooch.study.collecting": ("collect",),
    "nooch.study.embedding": ("embed",),
    "nooch.study.exporting": ("export",),
    "nooch.study.figures": ("figure_data", "save_figures"),
    "nooch.study.figure_sources": ("Sources",),
    "nooch.study.galleries": ("contact_sheet", "save_gallery"),
    "nooch.study.finding": ("find",),
    "nooch.study.loss_sweeping": ("sweep_losses",),
    "nooch.study.importing": ("import_dataset", "with_split"),
    "nooch.study.showing": ("explain", "overlaps", "summary"),
    "nooch.study.sweeping": ("sweep_thresholds",),
    "nooch.models.backbones": ("load_backbone",),
    "nooch.benching.bench_config": ("read_config",),
    "nooch.training.methods": ("Method",),
    "nooch.caches.features": ("FeatureOptions", "extract_features", "load_features"),
    "nooch.caches.pixels": ("PixelCache", "build_pixels"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "CE",
    "Attribute",
    "BoxReading",
    "ChallengeSet",
    "CocoReading",
    "Columns",
    "Combination",
    "ContextScores",
    "Dataset",
    "FeatureOptions",
    "Gist",
    "LocalEngine",
    "LongTable",
    "MapReading",
    "Method",
    "NoochError",
    "PixelCache",
    "Predictions",
    "Scores",
    "Sources",
    "SplitPlan",
    "Suite",
    "Sweep",
    "TableOfImages",
    "TableReading",
    "__version__",
    "attribute_table",
    "bench",
    "build_pixels",
    "collect",
    "contact_sheet",
    "divide",
    "embed",
    "engine",
    "evaluate",
    "explain",
    "export",
    "extract_features",
    "figure_data",
    "find",
    "find_images",
    "find_score",
    "import_dataset",
    "judge_statements",
    "load_backbone",
    "load_dataset",
    "load_features",
    "load_suite",
    "load_task_model",
    "make_waterbirds",
    "open_dataset",
    "overlaps",
    "paper_results",
    "plan_bench",
    "plan_finetune",
    "predict",
    "preset",
    "published_suite",
    "read_boxes",
    "read_coco",
    "read_config",
    "read_label_maps",
    "read_labels",
    "read_long_table",
    "read_published",
    "read_results",
    "read_table_of_images",
    "read_task_map",
    "read_thresholds",
    "read_waterbirds",
    "save_dataset",
    "save_figures",
    "save_gallery",
    "save_predictions",
    "save_scores",
    "save_suite",
    "save_sweep",
    "score_waterbirds",
    "suite_thresholds",
    "summary",
    "sweep_losses",
    "sweep_thresholds",
    "torch_dataset",
    "verify",
    "waterbirds_table",
    "with_attributes",
    "with_split",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name == "plot":
        # a module of functions, and not one of them
        return importlib.import_module("nooch.plot")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
