"""Find the images whose context misleads a vision model.

    import nooch

    data = nooch.load_dataset("coco")
    suite = nooch.find(data, {"ce": nooch.CE(alpha=0.05, beta=0.1)}, tasks=["car", "tie"])
    suite.set("ce", "car", "test").ids("hard_positive")

Names are imported when they are first used, so that ``import nooch`` starts at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

from nooch.base.version import __version__

if TYPE_CHECKING:
    from nooch.analysis.audit import Audit, AuditOptions, audit
    from nooch.analysis.calibrate import CalibrateOptions, Calibration, calibrate, read_calibration
    from nooch.analysis.check import Checked, CheckOptions, check
    from nooch.analysis.collect_next import CollectOptions, NextImages, collect_next
    from nooch.analysis.findings import Findings, cue_findings
    from nooch.analysis.intervene import InterveneOptions, Intervention, intervene
    from nooch.analysis.repair import Repaired, RepairOptions, repair
    from nooch.analysis.slices import SliceOptions, Slices, find_slices
    from nooch.analysis.validity import Validity, validity
    from nooch.analysis.verify import verify
    from nooch.base.engines import LocalEngine, engine
    from nooch.base.errors import NoochError
    from nooch.base.split_plan import SplitPlan
    from nooch.criteria import (
        CE,
        Attribute,
        Combination,
        Context,
        ContextScores,
        Gist,
        preset,
        read_thresholds,
    )
    from nooch.data import Dataset, divide, load_dataset, open_dataset, save_dataset
    from nooch.data.importing.attributes import attribute_table, with_attributes
    from nooch.data.importing.import_dataset import DatasetImportOptions, import_dataset, with_split
    from nooch.data.readers.boxes import BoxReading, read_boxes
    from nooch.data.readers.coco.reader import CocoReading, read_coco
    from nooch.data.readers.label_maps import MapReading, read_label_maps
    from nooch.data.readers.table_layouts import LongTable, TableOfImages
    from nooch.data.readers.tables import (
        Columns,
        TableReading,
        read_long_table,
        read_table_of_images,
    )
    from nooch.data.readers.waterbirds import read_waterbirds, score_waterbirds, waterbirds_table
    from nooch.evaluation import (
        EvaluateOptions,
        PredictionFormat,
        Predictions,
        Scores,
        evaluate,
        load_predictions,
    )
    from nooch.evaluation.captions import CaptionOptions, CaptionScores, score_captions
    from nooch.evaluation.losses import sweep_losses
    from nooch.inference.annotate import AnnotationReading
    from nooch.inference.ask import ask
    from nooch.inference.endpoint import EndpointOptions
    from nooch.inference.predict import find_images, predict, save_predictions
    from nooch.inference.requests import AskOptions
    from nooch.integrity import FolderCheck, fsck
    from nooch.models.backbones import load_backbone
    from nooch.models.caches.features import FeatureOptions, extract_features, load_features
    from nooch.models.caches.pixels import PixelCache, build_pixels
    from nooch.models.images import Preprocessing
    from nooch.models.segmenters import PredictedClasses
    from nooch.models.task_maps import read_task_map
    from nooch.models.task_models import load_task_model
    from nooch.report import save_scores
    from nooch.report.exports.export import export
    from nooch.report.exports.torch_dataset import torch_dataset
    from nooch.report.figures.sweeps import save_sweep
    from nooch.report.images.galleries import contact_sheet, save_gallery
    from nooch.report.images.paper_figures import figure_data, save_figures
    from nooch.report.images.sources import Sources
    from nooch.report.results.collect import collect
    from nooch.report.results.paper_numbers import paper_results
    from nooch.report.results.run_results import read_results
    from nooch.report.results.statements import judge_statements
    from nooch.report.site.site import write_report
    from nooch.scenes.truth_scores import find_score
    from nooch.suites import ChallengeSet, Suite, Sweep, load_suite, save_suite, suite_thresholds
    from nooch.suites.embed import embed
    from nooch.suites.find import find
    from nooch.suites.published import published_suite, read_labels, read_published
    from nooch.suites.search import FindOptions
    from nooch.suites.summary import explain, overlaps, summary
    from nooch.suites.sweep import SweepOptions, sweep_thresholds
    from nooch.training.bench.config import read_config
    from nooch.training.bench.plan import plan_bench, plan_finetune
    from nooch.training.bench.run import bench
    from nooch.training.methods import Method
    from nooch.training.weights import EnvironmentSampler, environments, sample_weights

_NAMES = {
    "nooch.inference.annotate": "AnnotationReading",
    "nooch.inference.ask": "ask",
    "nooch.inference.requests": "AskOptions",
    "nooch.inference.endpoint": "EndpointOptions",
    "nooch.analysis.audit": "Audit AuditOptions audit",
    "nooch.training.bench.config": "read_config",
    "nooch.training.bench.plan": "plan_bench plan_finetune",
    "nooch.training.bench.run": "bench",
    "nooch.models.caches.features": "FeatureOptions extract_features load_features",
    "nooch.models.caches.pixels": "PixelCache build_pixels",
    "nooch.analysis.calibrate": "Calibration read_calibration CalibrateOptions calibrate",
    "nooch.analysis.verify": "verify",
    "nooch.evaluation.captions": "CaptionOptions CaptionScores score_captions",
    "nooch.suites": "ChallengeSet Suite Sweep load_suite save_suite suite_thresholds",
    "nooch.analysis.check": "CheckOptions Checked check",
    "nooch.analysis.findings": "cue_findings Findings",
    "nooch.analysis.slices": "SliceOptions Slices find_slices",
    "nooch.analysis.validity": "Validity validity",
    "nooch.analysis.collect_next": "CollectOptions NextImages collect_next",
    "nooch.criteria": "CE Attribute Combination Context ContextScores Gist preset read_thresholds",
    "nooch.data": "Dataset divide load_dataset open_dataset save_dataset",
    "nooch.base.engines": "LocalEngine engine",
    "nooch.base.errors": "NoochError",
    "nooch.evaluation": (
        "EvaluateOptions PredictionFormat Predictions "
        "Scores evaluate load_predictions"
    ),
    "nooch.report.exports.export": "export",
    "nooch.report.exports.torch_dataset": "torch_dataset",
    "nooch.report.images.sources": "Sources",
    "nooch.report.images.galleries": "contact_sheet save_gallery",
    "nooch.report.images.paper_figures": "figure_data save_figures",
    "nooch.suites.embed": "embed",
    "nooch.evaluation.losses": "sweep_losses",
    "nooch.suites.search": "FindOptions",
    "nooch.suites.find": "find",
    "nooch.suites.summary": "explain overlaps summary",
    "nooch.suites.sweep": "SweepOptions sweep_thresholds",
    "nooch.data.importing.attributes": "attribute_table with_attributes",
    "nooch.data.importing.import_dataset": "DatasetImportOptions import_dataset with_split",
    "nooch.integrity": "FolderCheck fsck",
    "nooch.analysis.intervene": "InterveneOptions Intervention intervene",
    "nooch.models.segmenters": "PredictedClasses",
    "nooch.models.backbones": "load_backbone",
    "nooch.models.images": "Preprocessing",
    "nooch.models.task_models": "load_task_model",
    "nooch.models.task_maps": "read_task_map",
    "nooch.base.split_plan": "SplitPlan",
    "nooch.inference.predict": "find_images predict save_predictions",
    "nooch.suites.published": "read_published published_suite read_labels",
    "nooch.report.results.paper_numbers": "paper_results",
    "nooch.data.readers.boxes": "BoxReading read_boxes",
    "nooch.data.readers.coco.reader": "CocoReading read_coco",
    "nooch.data.readers.label_maps": "MapReading read_label_maps",
    "nooch.data.readers.table_layouts": "LongTable TableOfImages",
    "nooch.data.readers.tables": "Columns read_long_table read_table_of_images TableReading",
    "nooch.analysis.repair": "RepairOptions repair Repaired",
    "nooch.report": "save_scores",
    "nooch.report.figures.sweeps": "save_sweep",
    "nooch.report.results.statements": "judge_statements",
    "nooch.report.results.run_results": "read_results",
    "nooch.report.results.collect": "collect",
    "nooch.scenes.truth_scores": "find_score",
    "nooch.report.site.site": "write_report",
    "nooch.training.methods": "Method",
    "nooch.training.weights": "EnvironmentSampler environments sample_weights",
    "nooch.data.readers.waterbirds": "read_waterbirds score_waterbirds waterbirds_table",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "CE", "AnnotationReading", "AskOptions", "Attribute", "Audit", "AuditOptions", "BoxReading",
    "CalibrateOptions", "Calibration", "CaptionOptions", "CaptionScores", "ChallengeSet",
    "CheckOptions", "Checked", "CocoReading", "CollectOptions", "Columns", "Combination", "Context",
    "ContextScores", "Dataset", "DatasetImportOptions", "EndpointOptions", "EnvironmentSampler",
    "EvaluateOptions", "FeatureOptions", "FindOptions", "Findings", "FolderCheck", "Gist",
    "InterveneOptions", "Intervention", "LocalEngine", "LongTable", "MapReading", "Method",
    "NextImages", "NoochError", "PixelCache", "PredictedClasses", "PredictionFormat", "Predictions",
    "Preprocessing", "RepairOptions", "Repaired", "Scores", "SliceOptions", "Slices", "Sources",
    "SplitPlan", "Suite", "Sweep", "SweepOptions", "TableOfImages", "TableReading", "Validity",
    "__version__", "ask", "attribute_table", "audit", "bench", "build_pixels",
    "calibrate", "check", "collect", "collect_next", "contact_sheet", "cue_findings", "divide",
    "embed", "engine", "environments", "evaluate", "explain", "export", "extract_features",
    "figure_data", "find", "find_images", "find_score", "find_slices", "fsck", "import_dataset",
    "intervene", "judge_statements", "load_backbone", "load_dataset", "load_features",
    "load_predictions", "load_suite", "load_task_model", "open_dataset",
    "overlaps", "paper_results", "plan_bench", "plan_finetune", "predict", "preset",
    "published_suite", "read_boxes", "read_calibration", "read_coco", "read_config",
    "read_label_maps", "read_labels", "read_long_table", "read_published", "read_results",
    "read_table_of_images", "read_task_map", "read_thresholds", "read_waterbirds", "repair",
    "sample_weights", "save_dataset", "save_figures", "save_gallery", "save_predictions",
    "save_scores", "save_suite", "save_sweep", "score_captions", "score_waterbirds",
    "suite_thresholds", "summary", "sweep_losses", "sweep_thresholds", "torch_dataset", "validity",
    "verify", "waterbirds_table", "with_attributes", "with_split", "write_report",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in {"plot", "callbacks"}:
        # modules of functions and classes, and not one of them
        return importlib.import_module(f"nooch.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
