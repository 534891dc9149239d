"""What estimators share: validation, predict, transform, novelty, checkpoints. No algorithm."""
