"""Views of a comparison, a file a format: terminal, Markdown for a pull request, a page. JSON is the result itself."""
