# the public names of nooch, listed once: __init__.py reads this file
from . import callbacks as callbacks, plot as plot
from .analysis.audit import Audit as Audit, AuditOptions as AuditOptions, audit as audit
from .analysis.calibrate import (
    CalibrateOptions as CalibrateOptions,
    Calibration as Calibration,
    calibrate as calibrate,
    read_calibration as read_calibration,
)
from .analysis.check import Checked as Checked, CheckOptions as CheckOptions, check as check
from .analysis.collect_next import (
    CollectOptions as CollectOptions,
    NextImages as NextImages,
    collect_next as collect_next,
)
from .analysis.findings import Findings as Findings, cue_findings as cue_findings
from .analysis.intervene import (
    InterveneOptions as InterveneOptions,
    Intervention as Intervention,
    intervene as intervene,
)
from .analysis.repair import Repaired as Repaired, RepairOptions as RepairOptions, repair as repair
from .analysis.slice_tests import SliceOptions as SliceOptions
from .analysis.slices import Slices as Slices, find_slices as find_slices
from .analysis.validity import Validity as Validity, validity as validity
from .analysis.verify import verify as verify
from .base.engines import LocalEngine as LocalEngine, engine as engine
from .base.errors import NoochError as NoochError
from .base.split_plan import SplitPlan as SplitPlan
from .base.version import __version__ as __version__
from .criteria import (
    CE as CE,
    Attribute as Attribute,
    Combination as Combination,
    Context as Context,
    ContextScores as ContextScores,
    Gist as Gist,
    preset as preset,
    read_thresholds as read_thresholds,
)
from .data import (
    Dataset as Dataset,
    divide as divide,
    load_dataset as load_dataset,
    open_dataset as open_dataset,
    save_dataset as save_dataset,
)
from .data.importing.attributes import (
    attribute_table as attribute_table,
    with_attributes as with_attributes,
)
from .data.importing.import_dataset import (
    DatasetImportOptions as DatasetImportOptions,
    import_dataset as import_dataset,
    with_split as with_split,
)
from .data.readers.boxes import BoxReading as BoxReading, read_boxes as read_boxes
from .data.readers.coco.reader import CocoReading as CocoReading, read_coco as read_coco
from .data.readers.label_maps import MapReading as MapReading, read_label_maps as read_label_maps
from .data.readers.table_layouts import (
    Columns as Columns,
    LongTable as LongTable,
    TableOfImages as TableOfImages,
)
from .data.readers.tables import (
    TableReading as TableReading,
    read_long_table as read_long_table,
    read_table_of_images as read_table_of_images,
)
from .data.readers.waterbirds import read_waterbirds as read_waterbirds
from .evaluation import (
    EvaluateOptions as EvaluateOptions,
    PredictionFormat as PredictionFormat,
    Predictions as Predictions,
    Scores as Scores,
    evaluate as evaluate,
    load_predictions as load_predictions,
)
from .evaluation.captions import (
    CaptionScores as CaptionScores,
    score_captions as score_captions,
)
from .evaluation.explain import explain as explain
from .evaluation.losses import sweep_losses as sweep_losses
from .inference.annotate import AnnotationReading as AnnotationReading
from .inference.ask import ask as ask
from .inference.endpoint import EndpointOptions as EndpointOptions
from .inference.predict import (
    find_images as find_images,
    predict as predict,
    save_predictions as save_predictions,
)
from .inference.requests import AskOptions as AskOptions
from .integrity import FolderCheck as FolderCheck, fsck as fsck
from .models.backbones import load_backbone as load_backbone
from .models.caches.features import (
    FeatureOptions as FeatureOptions,
    extract_features as extract_features,
    load_features as load_features,
)
from .models.caches.pixels import PixelCache as PixelCache, build_pixels as build_pixels
from .models.images import Preprocessing as Preprocessing
from .models.segmenters import PredictedClasses as PredictedClasses
from .models.task_maps import read_task_map as read_task_map
from .models.task_models import load_task_model as load_task_model
from .report import save_scores as save_scores
from .report.exports.export import export as export
from .report.exports.torch_dataset import torch_dataset as torch_dataset
from .report.figures.sweeps import save_sweep as save_sweep
from .report.images.galleries import save_gallery as save_gallery
from .report.images.paper_figures import figure_data as figure_data, save_figures as save_figures
from .report.images.sources import Sources as Sources
from .report.results.collect import collect as collect
from .report.results.paper_numbers import paper_results as paper_results
from .report.results.run_results import read_results as read_results
from .report.results.statements import judge_statements as judge_statements
from .report.results.waterbirds import (
    score_waterbirds as score_waterbirds,
    waterbirds_table as waterbirds_table,
)
from .report.site.site import write_report as write_report
from .scenes.truth_scores import find_score as find_score
from .suites import (
    ChallengeSet as ChallengeSet,
    Suite as Suite,
    Sweep as Sweep,
    load_suite as load_suite,
    save_suite as save_suite,
    suite_thresholds as suite_thresholds,
)
from .suites.embed import embed as embed
from .suites.find import find as find
from .suites.published import (
    published_suite as published_suite,
    read_labels as read_labels,
    read_published as read_published,
)
from .suites.search import FindOptions as FindOptions
from .suites.summary import overlaps as overlaps, summary as summary
from .suites.sweep import SweepOptions as SweepOptions, sweep_thresholds as sweep_thresholds
from .training.bench.config import read_config as read_config
from .training.bench.plan import plan_bench as plan_bench, plan_finetune as plan_finetune
from .training.bench.run import bench as bench
from .training.methods import Method as Method
from .training.weights import (
    EnvironmentSampler as EnvironmentSampler,
    environments as environments,
    sample_weights as sample_weights,
)
