"""How well a model transcribes: raw texts of a run -> error rates with their intervals. Needs neither model nor torch.

`transcripts` is the file of references and hypotheses that a run keeps for each variant, `normalise` the ways to make
texts comparable, `score` counts errors, draws the intervals and puts them into results.json, then and later.
"""
