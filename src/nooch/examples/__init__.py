"""Examples: which images stand for a task, their losses, the masks of their cues, and their
thumbnails.
"""
