"""Sentence vectors from only the words: TF-IDF and its leading singular vectors, without a model.

Latent semantic analysis (Deerwester et al., 1990). Sentences that share words are close, synonyms
only if other sentences connect them; use it where no model is available.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils.extmath import randomized_svd

from nooch.base.calls import Count, Options, StepProgress
from nooch.models.encoders.caption_vectors import distinct

# from this many sentences, a term of a single one is noise, and most of the vocabulary
_MANY = 1000


@dataclass(frozen=True)
class LexicalEncoder(Options):
    """TF-IDF of words and pairs of words, and truncated SVD, fitted on the given sentences.

    Vectors of two calls can therefore not be compared with each other: give all sentences at once.

    Attributes:
        dimensions: length of a vector; less for fewer distinct sentences or terms.
        seed: of the randomized SVD.
    """

    dimensions: Count = 256
    seed: int = 0

    @property
    def identity(self) -> str:
        """``lexical-256``; another seed is added."""
        return f"lexical-{self.dimensions}" + (f"-seed{self.seed}" if self.seed else "")

    @property
    def in_parts(self) -> bool:
        """The vocabulary is taken from all sentences."""
        return False

    def describe(self) -> dict[str, Any]:
        """Family, parameters, version."""
        return {
            "encoder": "lexical",
            "method": "TF-IDF (sublinear, words and pairs of words) and truncated SVD",
            "dimensions": self.dimensions,
            "seed": self.seed,
            "versions": {"scikit-learn": sklearn.__version__},
        }

    def encode(
        self, sentences: Sequence[str], progress: StepProgress | None = None
    ) -> NDArray[np.float32]:
        """Vectors of sentences: float32 (n, d), d up to ``dimensions``; 0 if no term is known."""
        # the distinct ones in ascending order: neither order nor repetition has an effect
        texts, codes = distinct(sentences)
        if progress is not None:
            progress(0, len(texts))
        matrix = _tf_idf(texts, 2 if len(texts) >= _MANY else 1)
        if matrix is None and len(texts) >= _MANY:
            matrix = _tf_idf(texts, 1)
        vectors = np.zeros((len(texts), 1), np.float32) if matrix is None else self._reduced(matrix)
        if progress is not None:
            progress(len(texts), len(texts))
        return vectors[codes]

    def _reduced(self, matrix: csr_array) -> NDArray[np.float32]:
        """U S of the leading singular vectors; their signs are fixed by the largest entry."""
        size = min(self.dimensions, *matrix.shape)
        fixed = {"n_iter": 4, "random_state": self.seed, "flip_sign": True}
        left, values, _ = randomized_svd(matrix, size, **fixed)
        vectors: NDArray[np.float32] = (left * values).astype(np.float32)
        return vectors


def _tf_idf(texts: list[str], least: int) -> csr_array | None:
    """TF-IDF of terms in at least ``least`` texts, rows of length 1; None if there is no term."""
    options = {"strip_accents": "unicode", "ngram_range": (1, 2), "sublinear_tf": True}
    vectorizer = TfidfVectorizer(min_df=least, dtype=np.float32, **options)
    try:
        return csr_array(vectorizer.fit_transform(texts))
    except ValueError:  # scikit-learn: no term is left
        return None
