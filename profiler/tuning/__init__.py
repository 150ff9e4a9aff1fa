"""What `tune` is made of: limits, candidates, halving, the choice, the recipe to keep. It measures nothing itself."""
