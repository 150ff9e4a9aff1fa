"""Models: one adapter file a library. `registry` finds the one that serves a recipe, without importing its library."""
