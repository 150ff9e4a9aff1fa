"""Features without a model: Kaldi's log-mel filterbank."""
