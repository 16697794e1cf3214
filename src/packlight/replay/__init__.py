"""Replays: recorded sessions walked through the engine."""
