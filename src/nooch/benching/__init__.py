"""The bench: its configuration and what it costs."""

__all__: list[str] = []
