"""Examples: which images stand for a task, with losses, cue masks and thumbnails."""
