"""Where things stand in a checkout."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
