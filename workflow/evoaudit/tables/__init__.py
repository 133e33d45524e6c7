"""Tables of numbers: declared once, built from the stages' folders, rendered for machines, people and print."""
