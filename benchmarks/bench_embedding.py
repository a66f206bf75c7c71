"""Embedding captions against ``SentenceTransformer.encode`` at its defaults: speed and fidelity.

    python benchmarks/bench_embedding.py --sentences 5000 --json embedding.json

Both run in this process, in turns, on the same sentences; a ratio is of two neighboring runs. Other
work on the machine slows the peer more (its threads wait for each other in every operation), so the
ratio of the two fastest runs is given too: it is valid on an idle machine. The captions are COCO's
val2017, from ``shared/data`` next to the repository; without that file, generated ones.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import parser
from numpy.typing import NDArray

from nooch.models.encoders import encoder
from nooch.models.encoders.sbert import PRECISIONS, SbertEncoder, locate

SHARED = Path(__file__).resolve().parents[2] / "shared"
CAPTIONS = SHARED / "data" / "captions" / "captions_val2017.json"
WORDS = "a man dog riding holding near with red street table grass beach the"


def captions(count: int) -> tuple[list[str], str]:
    """The first ``count`` captions and where they come from."""
    if CAPTIONS.is_file():
        annotations = json.loads(CAPTIONS.read_bytes())["annotations"]
        return [str(a["caption"]) for a in annotations][:count], "COCO val2017"
    random = np.random.default_rng(0)
    lengths = random.integers(7, 16, count)
    return [" ".join(random.choice(WORDS.split(), n)) + "." for n in lengths], "generated"


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return call(), time.perf_counter() - start


def compare(peer: Any, ours: SbertEncoder, sentences: list[str], runs: int) -> dict[str, Any]:
    """Times of both, in turns, ratios of neighboring runs, and cosines between their vectors."""
    times: list[tuple[float, float]] = []
    for _ in range(runs):
        expected, slow = timed(lambda: peer.encode(sentences))
        given, fast = timed(lambda: ours.encode(sentences))
        times.append((slow, fast))
    ratios = sorted(slow / fast for slow, fast in times)
    cosines = cosine(expected, given)
    return {
        "sentences": len(sentences),
        "distinct": len(set(sentences)),
        "peer_seconds": [slow for slow, _ in times],
        "nooch_seconds": [fast for _, fast in times],
        "ratio_of_fastest": min(slow for slow, _ in times) / min(fast for _, fast in times),
        "ratio": {"min": ratios[0], "median": float(np.median(ratios)), "max": ratios[-1]},
        "fidelity": {"min": float(cosines.min()), "mean": float(cosines.mean())},
    }


def cosine(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float64]:
    x, y = a.astype(np.float64), b.astype(np.float64)
    lengths = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
    result: NDArray[np.float64] = (x * y).sum(1) / lengths
    return result


def show(name: str, row: dict[str, Any]) -> None:
    ratio, fidelity = row["ratio"], row["fidelity"]
    peer, ours = min(row["peer_seconds"]), min(row["nooch_seconds"])
    print(
        f"{name:<12} {row['sentences']:>9,} {row['distinct']:>9,} {peer:>8.2f} {ours:>8.2f}"
        f" {row['ratio_of_fastest']:>8.2f}   {ratio['median']:.2f} ({ratio['min']:.2f} to"
        f" {ratio['max']:.2f})   {fidelity['min']:.6f} {fidelity['mean']:.6f}"
    )


def main() -> None:
    command = parser(__doc__, runs=3, model="minilm")
    command.add_argument(
        "--sentences", type=int, default=5000, help="how many captions (25,014 are all)"
    )
    command.add_argument("--precision", default="float32", choices=PRECISIONS)
    options = command.parse_args()

    import sentence_transformers
    import torch

    ours = encoder(options.model, precision=options.precision)
    if not isinstance(ours, SbertEncoder):
        command.error(f"--model {options.model} is not a model of sentence-transformers")
    peer = sentence_transformers.SentenceTransformer(str(locate(ours.source)))
    sentences, origin = captions(options.sentences)
    for each in (peer, ours):
        each.encode(sentences[:64])
    threads = f"{torch.get_num_threads()} threads"
    print(f"{ours.identity} and SentenceTransformer.encode on {origin}, {threads}")
    head = "captions     sentences  distinct   peer s  nooch s  fastest"
    print(f"{head}   ratio, median (min to max)   cosine min, mean")
    results = {}
    for name, texts in (("as given", sentences), ("distinct", sorted(set(sentences)))):
        results[name] = compare(peer, ours, texts, options.runs)
        show(name, results[name])
    if options.json:
        cpu = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
        about = {"encoder": ours.describe(), "captions": origin, "CPU": cpu, "runs": options.runs}
        options.json.write_text(json.dumps({**about, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
