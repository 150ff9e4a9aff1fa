"""s3prl."""
