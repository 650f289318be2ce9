"""The aggregator's process: wire-up, its place in the tree, its ranks; it knows no MI text."""
