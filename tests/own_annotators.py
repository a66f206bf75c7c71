"""Models of users that annotate images: YOLOX as ONNX, and ones that need no network."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from PIL import Image

from nooch.models import PredictedClasses

_COCO = """person bicycle car motorcycle airplane bus train truck boat traffic_light fire_hydrant
stop_sign parking_meter bench bird cat dog horse sheep cow elephant bear zebra giraffe backpack
umbrella handbag tie suitcase frisbee skis snowboard sports_ball kite baseball_bat baseball_glove
skateboard surfboard tennis_racket bottle wine_glass cup fork knife spoon bowl banana apple sandwich
orange broccoli carrot hot_dog pizza donut cake chair couch potted_plant bed dining_table toilet tv
laptop mouse remote keyboard cell_phone microwave oven toaster sink refrigerator book clock vase
scissors teddy_bear hair_drier toothbrush"""


class Yolox:
    """YOLOX-nano: a class is present with the largest objectness x class score of its boxes."""

    classes = tuple(_COCO.split())

    def __init__(self) -> None:
        import onnxruntime

        self.session = onnxruntime.InferenceSession(os.environ["YOLOX"])

    def __call__(self, pixels: np.ndarray) -> PredictedClasses:
        return PredictedClasses(np.stack([self._scores(image) for image in pixels]))

    def _scores(self, image: np.ndarray) -> np.ndarray:
        height, width, _ = image.shape
        scale = 416 / max(height, width)
        size = round(width * scale), round(height * scale)
        canvas = np.full((416, 416, 3), 114, np.uint8)
        canvas[: size[1], : size[0]] = Image.fromarray(image).resize(
            size, Image.Resampling.BILINEAR
        )
        batch = canvas[None, :, :, ::-1].transpose(0, 3, 1, 2).astype(np.float32)
        boxes = self.session.run(None, {"images": batch})[0][0]
        return (boxes[:, 4:5] * boxes[:, 5:]).max(axis=0).clip(0, 1)

    def describe(self) -> dict:
        return {"file": Path(os.environ["YOLOX"]).name}


class Colors:
    """Red and blue: the share of such pixels, each as sure as its brightest pixel; with maps."""

    classes = ("red", "blue")

    def __call__(self, pixels: np.ndarray) -> PredictedClasses:
        values = pixels[..., [0, 2]].astype(float) / 255
        places = np.where(values.max(axis=3) > 0.5, values.argmax(axis=3), 2)
        masks = places[..., None] == np.arange(2)
        confidences = np.where(masks, values, 0).max(axis=(1, 2))
        return PredictedClasses(confidences, masks.mean(axis=(1, 2)), places)


class Boats(Colors):
    """Classes that scenes have."""

    classes = ("car", "boat")


class Presence(Colors):
    """As ``Colors``, without areas."""

    def __call__(self, pixels: np.ndarray) -> PredictedClasses:
        return PredictedClasses(super().__call__(pixels).confidences)


class Wrong(Colors):
    """Percentages instead of fractions."""

    def __call__(self, pixels: np.ndarray) -> PredictedClasses:
        return PredictedClasses(100 * super().__call__(pixels).confidences)


class Mute:
    """Names no classes."""
