"""ESPnet."""
