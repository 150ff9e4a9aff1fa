"""A model of one's own: a class, or a TorchScript file."""
