# listed once: the module reads this file
from .evaluation.losses import sweep_losses as sweep_losses
from .report.images.paper_figures import figure_data as figure_data, save_figures as save_figures
from .report.images.sources import Sources as Sources
from .report.results.collect import score_runs as score_runs
from .report.results.paper_numbers import paper_results as paper_results
from .report.results.run_results import read_results as read_results
from .report.results.waterbirds import (
    score_waterbirds as score_waterbirds,
    waterbirds_table as waterbirds_table,
)
from .suites.published import (
    published_suite as published_suite,
    read_labels as read_labels,
    read_published as read_published,
)
from .suites.summary import overlaps as overlaps
