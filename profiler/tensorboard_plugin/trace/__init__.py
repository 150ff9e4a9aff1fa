"""Traces of torch.profiler: read in pieces into columns, kept, and cut to what a page draws."""
