"""Make DejaVuSansReduced.ttf of matplotlib's DejaVu Sans: Latin, Greek and Cyrillic letters, without layout tables.

    .venv/bin/python -m profiler.report.plots.fonts.make

Papers want outlines of TrueType (type 42) in a PDF. Embedding those of the whole font takes 0.1 s per plot, of this one
5 ms. Its licence, beside it, allows that; a changed font must not be called Bitstream or Vera.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
from fontTools import subset  # type: ignore[import-untyped]

NAME = "DejaVu Sans Reduced"
FILE = Path(__file__).parent / "DejaVuSansReduced.ttf"
LETTERS = (*range(0x20, 0x250), *range(0x370, 0x460), *range(0x2010, 0x2040), 0x2191, 0x2192, 0x2212, 0x2264, 0x2265)
NAMES_OF_FAMILY, NAMES_OF_FONT = (1, 16), (4, 6)


def main() -> None:
    options = subset.Options(layout_features=[], notdef_outline=True, name_IDs=["*"])
    options.drop_tables += ["GPOS", "GSUB", "GDEF", "kern", "FFTM"]
    fonts = Path(matplotlib.get_data_path()) / "fonts/ttf"
    font = subset.load_font(str(fonts / "DejaVuSans.ttf"), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=LETTERS)
    subsetter.subset(font)
    for record in font["name"].names:
        if record.nameID in NAMES_OF_FAMILY:
            record.string = NAME
        if record.nameID in NAMES_OF_FONT:
            record.string = NAME.replace(" ", "")
    font.save(str(FILE))
    (FILE.parent / "LICENSE").write_text((fonts / "LICENSE_DEJAVU").read_text(encoding="utf-8"), encoding="utf-8")


if __name__ == "__main__":
    main()
