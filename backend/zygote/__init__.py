"""GDBs forked from one that has read the symbols; no module here controls a rank."""
