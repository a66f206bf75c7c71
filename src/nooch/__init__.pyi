# the names at the top, listed once: __init__.py reads this file
from . import (
    callbacks as callbacks,
    io as io,
    models as models,
    paper as paper,
    plot as plot,
    scenes as scenes,
    training as training,
    vlm as vlm,
)
from .analysis.audit import audit as audit
from .analysis.check import check as check
from .analysis.collect_next import collect_next as collect_next
from .analysis.column_audit import audit_columns as audit_columns
from .analysis.intervene import intervene as intervene
from .analysis.repair import repair as repair
from .analysis.slices import find_slices as find_slices
from .analysis.validity import validity as validity
from .base.engines import engine as engine
from .base.errors import NoochError as NoochError
from .base.version import __version__ as __version__
from .criteria import (
    CE as CE,
    Attribute as Attribute,
    Combination as Combination,
    Context as Context,
    ContextScores as ContextScores,
    Gist as Gist,
)
from .data import (
    Dataset as Dataset,
    load_dataset as load_dataset,
    open_dataset as open_dataset,
    save_dataset as save_dataset,
)
from .data.importing.frames import dataset as dataset
from .data.importing.import_dataset import (
    import_dataset as import_dataset,
)
from .evaluation import (
    Predictions as Predictions,
    Scores as Scores,
    evaluate as evaluate,
    load_predictions as load_predictions,
)
from .evaluation.detectable import detectable as detectable
from .evaluation.explain import explain as explain
from .evaluation.findings import cue_findings as cue_findings
from .inference.ask import ask as ask
from .inference.predict import predict as predict
from .integrity import fsck as fsck
from .report import save_scores as save_scores
from .report.exports.export import export as export
from .report.site.site import write_report as write_report
from .suites import (
    ChallengeSet as ChallengeSet,
    Suite as Suite,
    load_suite as load_suite,
    save_suite as save_suite,
)
from .suites.embed import embed as embed
from .suites.find import find as find
from .suites.summary import summary as summary
from .suites.sweep import sweep_thresholds as sweep_thresholds
from .training.bench.run import bench as bench
from .training.methods import Method as Method
