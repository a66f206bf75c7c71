"""Polygons along the borders of pixels give exactly the mask again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from pycocotools import mask as coco_mask
from scipy import ndimage

from nooch.scenes.annotations import outlines

# pycocotools with numpy 2
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@st.composite
def masks(draw):
    height, width = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    size = height * width
    values = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    return np.array(values).reshape(height, width)


def enclosed(polygon):
    x, y = np.array(polygon[::2]), np.array(polygon[1::2])
    return (x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2


@given(masks())
def test_polygons_are_the_mask_to_the_pixel(mask):
    polygons = outlines(mask)
    # a hole is background that does not reach the border, corners counting as ways out
    _, parts = ndimage.label(np.pad(~mask, 1, constant_values=True), np.ones((3, 3)))
    if polygons is None:
        assert parts > 1 or ndimage.label(np.pad(~mask, 1, constant_values=True))[1] > 1
        return
    assert parts == 1
    assert sum(enclosed(p) for p in polygons) == mask.sum()
    if polygons:
        height, width = mask.shape
        again = coco_mask.decode(coco_mask.merge(coco_mask.frPyObjects(polygons, height, width)))
        np.testing.assert_array_equal(again, mask)


def test_a_rectangle_has_four_corners():
    mask = np.zeros((5, 6), bool)
    mask[1:4, 2:5] = True
    assert outlines(mask) == [[2, 1, 5, 1, 5, 4, 2, 4]]


def test_parts_that_touch_at_a_corner_are_apart():
    assert len(outlines(np.eye(2, dtype=bool))) == 2


@pytest.mark.parametrize("value", [True, False])
def test_a_hole_has_no_polygon(value):
    mask = np.ones((3, 3), bool)
    mask[1, 1] = value
    assert (outlines(mask) is None) is not value
