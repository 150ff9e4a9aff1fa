"""Views of a comparison, one file per format: terminal, Markdown for a pull request, page. JSON is the result."""
