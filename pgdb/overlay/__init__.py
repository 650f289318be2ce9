"""The tree of nodes from the front end to the ranks: messages, links, routing; never a debugger."""
