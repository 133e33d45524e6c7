"""Figures from the computed tables: one function a figure, the same bytes for the same tables."""
