"""Data sets: manifests, folders and files of shapes -> utterances -> batches as training and evaluation draw them.

Needs neither torch nor a model. `manifest.read_dataset` reads any of the formats, `checks` says what is wrong with an
entry, `batching` makes batches and draws a sample of them, `plan` is what a run measures and scores.
"""
