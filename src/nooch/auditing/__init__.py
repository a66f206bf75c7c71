"""Labels worth a second look: those that models and the context contradict, with a page."""
