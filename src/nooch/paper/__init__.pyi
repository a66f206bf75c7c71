# listed once: the package reads this file
from nooch.evaluation.losses import sweep_losses as sweep_losses
from nooch.report.images.sources import Sources as Sources
from nooch.report.results.collect import score_runs as score_runs
from nooch.report.results.run_results import read_results as read_results
from nooch.suites.summary import overlaps as overlaps

from .figures import figure_data as figure_data, save_figures as save_figures
from .numbers import paper_results as paper_results
from .published_sets import (
    published_suite as published_suite,
    read_labels as read_labels,
    read_published as read_published,
)
from .sheet import report_tables as report_tables
from .truth_scores import find_score as find_score
from .waterbirds import (
    score_waterbirds as score_waterbirds,
    waterbirds_table as waterbirds_table,
)
