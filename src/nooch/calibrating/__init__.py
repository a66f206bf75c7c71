"""How far context can be trusted: two suites compared, and thresholds on predicted areas."""
