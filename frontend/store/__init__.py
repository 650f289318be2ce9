"""Files that outlive a session: recordings, log, history, settings. No module here asks a rank."""
