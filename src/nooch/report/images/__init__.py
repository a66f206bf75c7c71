"""Images and their masks as sheets and galleries: which ones stand for a task."""
