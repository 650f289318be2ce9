"""Files that outlive a session: recordings, log, history, settings; nothing here asks a rank."""
