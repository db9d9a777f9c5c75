"""Answers that the model gets only in part, because their client has stopped reading."""
