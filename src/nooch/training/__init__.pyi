# listed once: the package reads this file
from .bench.config import read_config as read_config
from .bench.plan import plan_bench as plan_bench, plan_finetune as plan_finetune
from .weights import (
    EnvironmentSampler as EnvironmentSampler,
    environments as environments,
    sample_weights as sample_weights,
)
