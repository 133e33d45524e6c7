"""Probes: questions about screens and actions, mined from the normalised tables (EvoGUI, §2.2–2.5)."""
