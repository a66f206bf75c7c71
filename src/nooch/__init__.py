"""Find the images whose context misleads a vision model.

    import nooch

    data = nooch.load_dataset("coco")
    suite = nooch.find(data, {"ce": nooch.CE(alpha=0.05, beta=0.1)}, tasks=["car", "tie"])
    suite.set("ce", "car", "test").ids("hard_positive")

Names are imported when they are first used, so that ``import nooch`` starts at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

from nooch.version import __version__

if TYPE_CHECKING:
    from nooch.annotating.annotation_reading import AnnotationReading
    from nooch.asking.ask import ask
    from nooch.asking.asked_requests import AskOptions
    from nooch.asking.endpoint_answers import EndpointOptions
    from nooch.auditing.label_audit import Audit, AuditOptions, audit
    from nooch.benching.bench_config import read_config
    from nooch.benching.bench_plan import plan_bench, plan_finetune
    from nooch.benching.bench_run import bench
    from nooch.caches.features import FeatureOptions, extract_features, load_features
    from nooch.caches.pixels import PixelCache, build_pixels
    from nooch.calibrating.calibration_file import Calibration, read_calibration
    from nooch.calibrating.calibration_run import CalibrateOptions, calibrate
    from nooch.calibrating.suite_agreement import verify
    from nooch.captions.caption_scores import CaptionOptions, CaptionScores, score_captions
    from nooch.challenge import ChallengeSet, Suite, Sweep, load_suite, save_suite, suite_thresholds
    from nooch.checking.check import Checked, CheckOptions, check
    from nooch.checking.cue_findings import cue_findings
    from nooch.checking.findings import Findings
    from nooch.checking.slice_search import SliceOptions, Slices, find_slices
    from nooch.checking.validity import Validity, validity
    from nooch.collecting.next_images import CollectOptions, NextImages, collect_next
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
    from nooch.engines import LocalEngine, engine
    from nooch.errors import NoochError
    from nooch.evaluation import (
        EvaluateOptions,
        PredictionFormat,
        Predictions,
        Scores,
        evaluate,
        load_predictions,
    )
    from nooch.exports.export_suite import export
    from nooch.exports.torch_dataset import torch_dataset
    from nooch.figures.figure_sources import Sources
    from nooch.figures.image_galleries import contact_sheet, save_gallery
    from nooch.figures.paper_figures import figure_data, save_figures
    from nooch.finding.dataset_embedding import embed
    from nooch.finding.loss_sweep import sweep_losses
    from nooch.finding.search import FindOptions
    from nooch.finding.suite_builder import find
    from nooch.finding.suite_summary import explain, overlaps, summary
    from nooch.finding.threshold_sweep import SweepOptions, sweep_thresholds
    from nooch.importing.attribute_columns import attribute_table, with_attributes
    from nooch.importing.dataset_import import DatasetImportOptions, import_dataset, with_split
    from nooch.integrity import FolderCheck, fsck
    from nooch.intervening.intervention import InterveneOptions, Intervention, intervene
    from nooch.models.annotators import PredictedClasses
    from nooch.models.backbones import load_backbone
    from nooch.models.model_kinds import load_task_model
    from nooch.models.preprocessing import Preprocessing
    from nooch.models.task_maps import read_task_map
    from nooch.plans import SplitPlan
    from nooch.predicting.network_predictions import find_images, predict, save_predictions
    from nooch.published import published_suite, read_labels, read_published
    from nooch.published.published_results import paper_results
    from nooch.readers.boxes import BoxReading, read_boxes
    from nooch.readers.coco.coco_reader import CocoReading, read_coco
    from nooch.readers.label_maps import MapReading, read_label_maps
    from nooch.readers.table_layouts import LongTable, TableOfImages
    from nooch.readers.table_reader import Columns, read_long_table, read_table_of_images
    from nooch.readers.table_reading import TableReading
    from nooch.repairing.repair import RepairOptions, repair
    from nooch.repairing.repair_verdicts import Repaired
    from nooch.report import save_scores
    from nooch.report.sweep_files import save_sweep
    from nooch.results.paper_statements import judge_statements
    from nooch.results.run_results import read_results
    from nooch.results.score_collection import collect
    from nooch.scenes.truth_scores import find_score
    from nooch.site.report_site import write_report
    from nooch.training.methods import Method
    from nooch.training.sample_weights import EnvironmentSampler, environments, sample_weights
    from nooch.waterbirds.waterbirds_dataset import (
        read_waterbirds,
        score_waterbirds,
        waterbirds_table,
    )

_NAMES = {
    "nooch.annotating.annotation_reading": "AnnotationReading",
    "nooch.asking.ask": "ask",
    "nooch.asking.asked_requests": "AskOptions",
    "nooch.asking.endpoint_answers": "EndpointOptions",
    "nooch.auditing.label_audit": "Audit AuditOptions audit",
    "nooch.benching.bench_config": "read_config",
    "nooch.benching.bench_plan": "plan_bench plan_finetune",
    "nooch.benching.bench_run": "bench",
    "nooch.caches.features": "FeatureOptions extract_features load_features",
    "nooch.caches.pixels": "PixelCache build_pixels",
    "nooch.calibrating.calibration_file": "Calibration read_calibration",
    "nooch.calibrating.calibration_run": "CalibrateOptions calibrate",
    "nooch.calibrating.suite_agreement": "verify",
    "nooch.captions.caption_scores": "CaptionOptions CaptionScores score_captions",
    "nooch.challenge": "ChallengeSet Suite Sweep load_suite save_suite suite_thresholds",
    "nooch.checking.check": "CheckOptions Checked check",
    "nooch.checking.cue_findings": "cue_findings",
    "nooch.checking.findings": "Findings",
    "nooch.checking.slice_search": "SliceOptions Slices find_slices",
    "nooch.checking.validity": "Validity validity",
    "nooch.collecting.next_images": "CollectOptions NextImages collect_next",
    "nooch.criteria": "CE Attribute Combination Context ContextScores Gist preset read_thresholds",
    "nooch.data": "Dataset divide load_dataset open_dataset save_dataset",
    "nooch.engines": "LocalEngine engine",
    "nooch.errors": "NoochError",
    "nooch.evaluation": (
        "EvaluateOptions PredictionFormat Predictions Scores evaluate load_predictions"
    ),
    "nooch.exports.export_suite": "export",
    "nooch.exports.torch_dataset": "torch_dataset",
    "nooch.figures.figure_sources": "Sources",
    "nooch.figures.image_galleries": "contact_sheet save_gallery",
    "nooch.figures.paper_figures": "figure_data save_figures",
    "nooch.finding.dataset_embedding": "embed",
    "nooch.finding.loss_sweep": "sweep_losses",
    "nooch.finding.search": "FindOptions",
    "nooch.finding.suite_builder": "find",
    "nooch.finding.suite_summary": "explain overlaps summary",
    "nooch.finding.threshold_sweep": "SweepOptions sweep_thresholds",
    "nooch.importing.attribute_columns": "attribute_table with_attributes",
    "nooch.importing.dataset_import": "DatasetImportOptions import_dataset with_split",
    "nooch.integrity": "FolderCheck fsck",
    "nooch.intervening.intervention": "InterveneOptions Intervention intervene",
    "nooch.models.annotators": "PredictedClasses",
    "nooch.models.backbones": "load_backbone",
    "nooch.models.preprocessing": "Preprocessing",
    "nooch.models.model_kinds": "load_task_model",
    "nooch.models.task_maps": "read_task_map",
    "nooch.plans": "SplitPlan",
    "nooch.predicting.network_predictions": "find_images predict save_predictions",
    "nooch.published": "published_suite read_labels read_published",
    "nooch.published.published_results": "paper_results",
    "nooch.readers.boxes": "BoxReading read_boxes",
    "nooch.readers.coco.coco_reader": "CocoReading read_coco",
    "nooch.readers.label_maps": "MapReading read_label_maps",
    "nooch.readers.table_layouts": "LongTable TableOfImages",
    "nooch.readers.table_reader": "Columns read_long_table read_table_of_images",
    "nooch.readers.table_reading": "TableReading",
    "nooch.repairing.repair": "RepairOptions repair",
    "nooch.repairing.repair_verdicts": "Repaired",
    "nooch.report": "save_scores",
    "nooch.report.sweep_files": "save_sweep",
    "nooch.results.paper_statements": "judge_statements",
    "nooch.results.run_results": "read_results",
    "nooch.results.score_collection": "collect",
    "nooch.scenes.truth_scores": "find_score",
    "nooch.site.report_site": "write_report",
    "nooch.training.methods": "Method",
    "nooch.training.sample_weights": "EnvironmentSampler environments sample_weights",
    "nooch.waterbirds.waterbirds_dataset": "read_waterbirds score_waterbirds waterbirds_table",
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
