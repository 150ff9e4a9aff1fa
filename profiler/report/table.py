"""A titled grid of texts. One look everywhere: a Markdown pipe table reads well in a terminal too."""

from __future__ import annotations

from dataclasses import dataclass, field

from tabulate import tabulate


@dataclass
class Table:
    """Title, header, rows, and remarks below."""

    title: str
    header: list[str]
    rows: list[list[str]]
    remarks: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        align = ("right",) * len(self.header)
        grid = tabulate(self.rows, self.header, tablefmt="pipe", colalign=align, disable_numparse=True)
        text = f"**{self.title}**\n\n{grid}"
        for before, remark in zip(["", *self.remarks], self.remarks, strict=False):
            in_list = remark.startswith("- ") and before.startswith("- ")
            text += f"\n{remark}" if in_list else f"\n\n{remark}"
        return text
