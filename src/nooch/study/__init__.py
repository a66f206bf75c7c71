"""The only place that wires the stages: the Python face of a whole run."""
