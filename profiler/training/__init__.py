"""Training steps: a model and a loss -> whole steps of forward, loss, backward and optimizer, that passes can measure.

`task` is what a model brings for a loss, `targets` are tokens to learn, `losses` and `lattice` compute the losses,
`step` is what is timed, `setup` puts them together in a worker.
"""
