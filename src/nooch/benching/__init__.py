"""The bench: its configuration and what it costs."""
