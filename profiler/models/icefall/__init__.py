"""icefall."""
