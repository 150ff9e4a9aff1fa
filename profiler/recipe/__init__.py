"""YAML -> Recipe, checked as a whole before anything heavy starts."""

from profiler.recipe.errors import Mistake, RecipeError
from profiler.recipe.load import load_recipe
from profiler.recipe.schema import Recipe

__all__ = ["Mistake", "Recipe", "RecipeError", "load_recipe"]
