"""Asking: a suite, its images and a vision-language model -> answers, or captions."""
