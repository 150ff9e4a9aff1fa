"""Views of results: each takes a Results and renders it; none needs the model, or torch."""
