"""Training steps: a model and a loss -> whole steps of forward, loss, backward and optimizer, that passes can measure.

`tasks` is what a model brings for a loss, and tokens to learn; `losses` computes the losses; `step` is what is timed.
"""
