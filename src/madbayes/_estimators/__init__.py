"""What estimators share: predict, transform, score, novelty, saving. No algorithm is in here."""
