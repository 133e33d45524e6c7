"""Where the files shipped with the workflow are."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESOURCES = ROOT / "resources"
PROMPTS = RESOURCES / "prompts"
CODEBOOK = RESOURCES / "codebook"
PUBLISHED = RESOURCES / "published"
#: Identities that self-hosted benchmarks publish for everyone to log in with.
FICTIONAL = RESOURCES / "privacy" / "fictional.yaml"
