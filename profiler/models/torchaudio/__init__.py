"""torchaudio."""
