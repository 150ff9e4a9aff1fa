"""List the recipes that ship: name and what each is for."""

from __future__ import annotations

import argparse
import json

from profiler.cli.options import add_json
from profiler.shipped import purpose, shipped_recipes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser, "the list")


def run(arguments: argparse.Namespace) -> int:
    recipes = shipped_recipes()
    if arguments.json:
        rows = [{"name": name, "file": str(path), "purpose": purpose(path)} for name, path in recipes.items()]
        print(json.dumps(rows, indent=1))
        return 0
    width = max((len(name) for name in recipes), default=0)
    for name, path in recipes.items():
        print(f"{name:<{width}}  {purpose(path)}")
    print("\nRun one: python profile.py recipes/NAME.yaml    Copy one: python profile.py cp NAME FILE")
    return 0
