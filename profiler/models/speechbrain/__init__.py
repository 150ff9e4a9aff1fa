"""SpeechBrain."""
