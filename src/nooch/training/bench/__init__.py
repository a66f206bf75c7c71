"""The bench: its configuration, its plan and its run."""
