"""The tree of nodes between the front end and the ranks: messages, links, admission, routing."""
