"""Pure checks over NodeFacts: findings as data."""
