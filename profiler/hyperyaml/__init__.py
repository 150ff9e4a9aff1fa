"""YAML that can call things, as HyperPyYAML's tags do: read as data, checked against one list, then run."""
