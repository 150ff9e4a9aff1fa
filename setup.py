"""Puts recipes/ and samples/ into the wheel, as data of the package. All else is in setup.cfg."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("recipes", "samples")


class BuildWithShipped(build_py):
    """In a checkout the package finds them beside itself; in a wheel below profiler/shipped_files."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for source, target in self.shipped().items():
                Path(target).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *self.shipped().values()]

    def shipped(self) -> dict[str, str]:
        """File -> where it goes."""
        target = Path(self.build_lib) / "profiler" / "shipped_files"
        files = [path for name in SHIPPED for path in sorted(Path(name).rglob("*")) if path.is_file()]
        return {str(path): str(target / path) for path in files if "__pycache__" not in path.parts}


setup(cmdclass={"build_py": BuildWithShipped})
