"""Files in formats of other programs: pictures, call trees. No module here asks a rank."""
