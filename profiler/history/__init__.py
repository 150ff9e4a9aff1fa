"""A figure of a recipe over its runs: which runs there are, what each says, and where the level shifted.

    runs in the log folder, and others by path --series--> points, one series per variant and machine --shifts--> levels

Needs results only: no model, no torch.
"""
