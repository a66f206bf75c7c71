"""COCO: annotation files, pixel maps of stuff, and the layouts in which people keep them."""
