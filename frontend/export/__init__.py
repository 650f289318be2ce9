"""Files in formats of others: pictures, arrays, call trees."""
