"""Data sets: manifests, folders and files of shapes -> utterances -> batches as training and evaluation draw them.

Needs neither torch nor a model. `manifest.read_dataset` reads any of the formats (a file each), `checks` says what is
wrong with an entry, `transcripts` which ones can be scored, `batching` makes batches and draws a sample of them, `plan`
is what a run measures.
"""
