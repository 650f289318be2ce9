"""Files in other programs' formats: pictures, arrays, call trees; nothing here asks a rank."""
