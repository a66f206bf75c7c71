# listed once: the module reads this file
from .analysis.leaderboard import leaderboard as leaderboard
from .evaluation.captions import score_captions as score_captions
from .inference.batch_files import Batch as Batch
from .inference.endpoint import Endpoint as Endpoint
from .inference.local_model import LocalModel as LocalModel
