"""The tab "Speech profile" of TensorBoard: a server that reads runs and cuts traces, and a page that draws them.

    page <- JSON, as much as is drawn <- plugin (routes) <- overview, tables, side_by_side, trace/ <- files

Nothing comes from the internet: `static/` is built from `frontend/` and ships with the package. No torch is imported.
"""
