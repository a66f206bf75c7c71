"""Captions: which objects they mention, and how often these are not in the image."""

from nooch.captions.caption_files import ModelCaptions, read_captions
from nooch.captions.caption_scores import CaptionOptions, CaptionScores, score_captions
from nooch.captions.mention_predictions import mentions
from nooch.captions.mention_vocabulary import COCO, Vocabulary, load_vocabulary

__all__ = [
    "COCO", "CaptionOptions", "CaptionScores", "ModelCaptions", "Vocabulary", "load_vocabulary",
    "mentions", "read_captions", "score_captions",
]  # fmt: skip
