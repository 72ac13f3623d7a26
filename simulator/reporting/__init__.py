"""Results for people: terminal tables first."""
