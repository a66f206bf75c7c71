"""COCO: annotation files, pixel maps of stuff, and the usual folder layouts."""
