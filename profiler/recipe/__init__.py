"""YAML -> Recipe, checked as a whole before anything heavy starts."""
