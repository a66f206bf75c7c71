"""Annotations of each format as a dataset in memory."""

import builtins

import nooch


def read_coco(things=(), stuff=(), captions=(), *, images=None, map=builtins.map, **more):
    reading = nooch.io.CocoReading(things, stuff, captions, **more)
    return nooch.io.read(reading, images=images, map=map)


def read_label_maps(folder, classes, *, images=None, map=builtins.map, **more):
    return nooch.io.read(nooch.io.MapReading(folder, classes, **more), images=images, map=map)


def read_boxes(source, format, *, map=builtins.map, **more):
    return nooch.io.read(nooch.io.BoxReading(source, format, **more), map=map)
